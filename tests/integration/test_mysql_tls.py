"""TLS to the database: encrypted, and only to the server that its certificate is for."""

import asyncio
import shutil

import pytest
import uvloop

from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.mysql.errors import ConnectFailed
from pinlater.server.backends.tls_files import TlsFiles
from tests.support.certificates import Authority
from tests.support.mariadb_service import MariadbService, skip_if_missing
from tests.support.mysql_bench import endpoint_of


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "ours")


@pytest.fixture(scope="module")
def service(tmp_path_factory, authority):
    skip_if_missing()
    issued = authority.issue("database", "DNS:localhost,IP:127.0.0.1")
    with MariadbService(
        tmp_path_factory.mktemp("mariadb"),
        f"--ssl-ca={authority.ca}",
        f"--ssl-cert={issued.cert}",
        f"--ssl-key={issued.key}",
        "--require-secure-transport=ON",
    ) as service:
        yield service


async def cipher(endpoint):
    try:
        connection = await MysqlConnection.open(endpoint)
        [(rows, _, _)] = await connection.run(b"SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        connection.close()
        return rows[0][1]
    finally:
        await asyncio.sleep(0.1)  # TLS says farewell before the loop ends


def test_the_connection_is_encrypted(service, authority):
    assert uvloop.run(cipher(endpoint_of(service, tls=TlsFiles(authority.ca))))


def test_our_certificate_is_shown(service, authority):
    ours = authority.issue("pinlater")
    assert uvloop.run(cipher(endpoint_of(service, tls=TlsFiles(authority.ca, ours.cert, ours.key))))


def test_a_server_that_nobody_vouches_for_is_refused(service, tmp_path):
    other = Authority(tmp_path, "theirs")
    for tls in (TlsFiles(other.ca), TlsFiles()):
        with pytest.raises(ConnectFailed, match="certificate verify failed"):
            uvloop.run(cipher(endpoint_of(service, tls=tls)))


def test_renewed_files_are_used_for_the_next_connection(service, tmp_path, authority, monkeypatch, caplog):
    monkeypatch.setattr("pinlater.protocol.tls_context._CHECK_SECONDS", 0)
    ca = tmp_path / "ca.pem"
    shutil.copy(Authority(tmp_path, "former").ca, ca)
    endpoint = endpoint_of(service, tls=TlsFiles(str(ca)))
    with pytest.raises(ConnectFailed, match="certificate verify failed"):
        uvloop.run(cipher(endpoint))
    shutil.copy(authority.ca, ca)
    assert uvloop.run(cipher(endpoint))
    ca.write_text("half wri")
    assert uvloop.run(cipher(endpoint)), "the file read before stays in use"
    assert "the files read before stay in use" in caplog.text


def test_a_server_of_another_name_is_refused(service, tmp_path, authority):
    elsewhere = authority.issue("elsewhere", "DNS:db7.example.com")
    with (
        MariadbService(tmp_path, f"--ssl-cert={elsewhere.cert}", f"--ssl-key={elsewhere.key}") as impostor,
        pytest.raises(ConnectFailed, match="certificate verify failed"),
    ):
        uvloop.run(cipher(endpoint_of(impostor, tls=TlsFiles(authority.ca))))


def test_in_the_clear_nobody_gets_in(service):
    with pytest.raises(ConnectFailed):
        uvloop.run(cipher(endpoint_of(service)))

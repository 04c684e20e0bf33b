"""Renewed certificates, the end of certificates, and files that are none."""

import contextlib
import shutil
import signal
import ssl
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from pinlater import Client, TlsFiles
from pinlater.client.address import Address
from pinlater.client.sockets import unavailable
from pinlater.errors import ConfigError, ServerUnavailable
from pinlater.server.net import certificates
from pinlater.server.net.certificate_expiry import expires_at
from pinlater.server.net.certificates import Certificates
from tests.integration.tls.tls_server import TlsServer
from tests.support.server import wait_for


def test_renewed_certificates_are_used_without_a_restart(authority, stranger, tmp_path):
    issued = authority.issue("renewed")
    ca = tmp_path / "ca.pem"
    shutil.copy(authority.ca, ca)
    server = TlsServer(tmp_path, TlsFiles(ca=ca), THRIFT_TLS_CERT=issued.cert, THRIFT_TLS_KEY=issued.key)
    try:
        with Client(server.address, tls=TlsFiles(ca=ca)) as old:
            old.queue_names()
            served = server.child().pid
            Path(issued.cert).write_text("no certificate")
            assert wait_for(lambda: "the previous content stays in effect" in server.log)
            with Client(server.address, tls=TlsFiles(ca=ca)) as client:
                client.queue_names()
            other = stranger.issue("renewal")
            shutil.copy(other.key, issued.key)
            shutil.copy(other.cert, issued.cert)
            with Client(server.address, tls=TlsFiles(ca=stranger.ca)) as client:
                wait_for(lambda: _answers(client))
            assert server.child().pid == served
            old.queue_names()  # what is connected stays so
        shutil.copy(stranger.ca, ca)  # and clients follow, too
        server.tls = TlsFiles(ca=ca)
        with Client(server.address, tls=server.tls) as client:
            wait_for(lambda: _answers(client))
    finally:
        assert server.stop() == 0


def _successor(server, pid):
    """Return whether another process serves now; between two of them, none does."""
    with contextlib.suppress(ValueError, IndexError, psutil.NoSuchProcess):
        return server.child().pid != pid


def _answers(client):
    try:
        client.queue_names()
    except ServerUnavailable:
        return False
    return True


def test_a_hup_takes_the_new_certificate_at_once(authority, stranger, tmp_path):
    issued, other = authority.issue("before"), stranger.issue("after")
    server = TlsServer(tmp_path, TlsFiles(ca=authority.ca), THRIFT_TLS_CERT=issued.cert, THRIFT_TLS_KEY=issued.key)
    try:
        shutil.copy(other.key, issued.key)
        shutil.copy(other.cert, issued.cert)
        server.process.send_signal(signal.SIGHUP)
        with Client(server.address, tls=TlsFiles(ca=stranger.ca)) as client:
            wait_for(lambda: _answers(client))
    finally:
        assert server.stop() == 0


def test_a_hup_with_files_that_are_broken_ends_nothing(authority, tmp_path):
    issued = authority.issue("broken")
    server = TlsServer(tmp_path, TlsFiles(ca=authority.ca), THRIFT_TLS_CERT=issued.cert, THRIFT_TLS_KEY=issued.key)
    try:
        served = server.child().pid
        Path(issued.cert).write_text("no certificate")
        Path(issued.key).unlink()
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: _successor(server, served))
        with Client(server.address, tls=server.tls) as client:
            wait_for(lambda: _answers(client))
        assert "the previous content stays in effect" in server.log
    finally:
        assert server.stop() == 0


def test_a_certificate_that_is_renewed_while_its_key_cannot_be_read_is_used_once_it_can(authority, tmp_path):
    issued, renewed = authority.issue("unreadable"), tmp_path / "renewed.pem"
    command = ["openssl", "req", "-x509", "-key", issued.key, "-days", "20", "-subj", "/CN=x", "-out", str(renewed)]
    subprocess.run(command, check=True, capture_output=True)
    certificate, key = Path(issued.cert), Path(issued.key)
    certificates, content = Certificates(certificate, key), key.read_bytes()
    first = certificates.expires_at
    key.unlink()
    shutil.copy(renewed, certificate)
    certificates.reload_if_changed()
    assert certificates.expires_at == first
    key.write_bytes(content)
    certificates.reload_if_changed()
    assert certificates.expires_at == expires_at(renewed)


def test_the_end_of_the_certificate_is_a_metric(server):
    name = "pinlater_tls_certificate_expiry_timestamp_seconds "

    def shown():
        return [line for line in server.page("/metrics")[1].splitlines() if line.startswith(name)]

    [line] = wait_for(shown)
    assert float(line.split()[1]) == pytest.approx(time.time() + 2 * 86400, abs=600)


@pytest.mark.parametrize("days", [1, 10_000])  # after 2049 it is written in another form
def test_the_end_of_a_certificate_is_read(tmp_path, days):
    file = tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(tmp_path / "key.pem"), "-out", str(file), "-days", str(days), "-subj", "/CN=x"]
    subprocess.run(command, check=True, capture_output=True)
    shown = subprocess.run(
        ["openssl", "x509", "-in", str(file), "-noout", "-enddate"], check=True, capture_output=True, text=True
    ).stdout
    assert expires_at(file) == ssl.cert_time_to_seconds(shown.strip().removeprefix("notAfter="))


@pytest.mark.parametrize(
    ("age_days", "said"), [(-10, None), (1, "expires on {day}; renew it"), (3, "expired on {day}; renew it")]
)
def test_a_certificate_that_expires_soon_or_has_expired_is_warned_of(authority, monkeypatch, caplog, age_days, said):
    issued = authority.issue("old")  # for two days
    end = expires_at(Path(issued.cert))
    now = time.time() + age_days * 86400
    monkeypatch.setattr(certificates.time, "time", lambda: now)
    Certificates(Path(issued.cert), Path(issued.key))
    day = time.strftime("%Y-%m-%d", time.gmtime(end))
    expected = [] if said is None else [f"{issued.cert} {said.format(day=day)}"]
    assert [record.getMessage() for record in caplog.records] == expected


@pytest.mark.parametrize(("code", "words"), [(9, "certificate is not yet valid"), (10, "certificate has expired")])
def test_a_client_says_what_to_do_about_a_certificate_out_of_date(code, words):
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, words
    expected = f"its {words}; renew it there, or set the clock of this machine"
    assert expected in str(unavailable(Address.parse("tls://queue1:9010"), error))


def test_the_end_of_no_certificate_is_not_known(tmp_path):
    file = tmp_path / "cert.pem"
    assert expires_at(file) is None
    for body in ("", "-----BEGIN CERTIFICATE-----\nMAMCAQA=\n-----END CERTIFICATE-----\n"):
        file.write_text(body)
        assert expires_at(file) is None


@pytest.mark.parametrize("content", ["", "rubbish"])
def test_files_that_are_no_certificates_are_named(tmp_path, content):
    path = tmp_path / "ca.pem"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"ca\.pem: cannot be used for TLS"):
        TlsFiles(ca=path).context()


def test_a_directory_in_place_of_a_certificate_is_named(tmp_path):
    with pytest.raises(ConfigError, match=f"^{tmp_path}: cannot be used for TLS"):
        TlsFiles(cert=tmp_path).context()


def test_a_certificate_whose_key_is_in_a_file_that_is_not_named_is_refused_in_words(authority):
    issued = authority.issue("apart")
    with pytest.raises(ConfigError, match=r"has no private key; name the file that has it: PINLATER_TLS_KEY$"):
        TlsFiles(ca=authority.ca, cert=issued.cert).context()
    with pytest.raises(ConfigError, match=r"has no private key; name the file that has it: THRIFT_TLS_KEY$"):
        Certificates(Path(issued.cert))


def test_a_key_with_a_passphrase_is_refused_and_nobody_asked(authority, tmp_path):
    issued = authority.issue("locked")
    locked = tmp_path / "locked.key"
    command = ["openssl", "ec", "-in", issued.key, "-aes256", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(ConfigError, match="has a passphrase"):
        TlsFiles(ca=authority.ca, cert=issued.cert, key=locked).context()
    with pytest.raises(ConfigError, match=r"locked\.key: the key has a passphrase"):
        Certificates(Path(issued.cert), locked)

"""Addresses of servers, and the files for TLS that go with them."""

import shutil

import pytest

from pinlater.client.address import Address
from pinlater.client.servers import ServerSet
from pinlater.client.tls import TlsFiles
from pinlater.errors import ConfigError
from tests.support.certificates import Authority


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("queue1:9011", Address("queue1", 9011)),
        ("tls://queue1:9011", Address("queue1", 9011, "tls")),
        ("tls://queue1", Address("queue1", 9010, "tls")),
        ("tls://[::1]:9011", Address("::1", 9011, "tls")),
        ("unix:/run/pinlater.sock", Address("/run/pinlater.sock", 0, "unix")),
    ],
)
def test_an_address_is_read_and_written(text, address):
    assert Address.parse(text) == address
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize("text", ["https://queue1:9010", "tls://", "unix:relative.sock", "unix:", "tls:queue1:9010"])
def test_what_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="is no server address; write"):
        Address.parse(text)


def test_files_for_tls_that_would_not_be_used_are_refused(monkeypatch):
    monkeypatch.setenv("PINLATER_TLS_CA", "ca.pem")
    with pytest.raises(ConfigError, match="write tls://queue1:9010"):
        ServerSet.of("queue1:9010")
    with pytest.raises(ConfigError, match=r"write tls://127\.0\.0\.1:9010"):
        ServerSet.from_environment()
    assert ServerSet.of("tls://queue1").tls == TlsFiles(ca="ca.pem")
    assert ServerSet.of("unix:/run/pinlater.sock")


def test_options_go_before_the_environment(monkeypatch):
    monkeypatch.setenv("PINLATER_TLS_CA", "ca.pem")
    monkeypatch.setenv("PINLATER_TLS_CERT", "cert.pem")
    monkeypatch.setenv("PINLATER_TLS_KEY", "key.pem")
    assert TlsFiles.from_environment() == TlsFiles("ca.pem", "cert.pem", "key.pem")
    assert TlsFiles.from_environment(ca="other.pem") == TlsFiles("other.pem", "cert.pem", "key.pem")
    assert TlsFiles.from_environment(cert="mine.pem") == TlsFiles("ca.pem", "mine.pem", None)


def test_a_key_needs_its_certificate():
    with pytest.raises(ConfigError, match="PINLATER_TLS_KEY has no effect without PINLATER_TLS_CERT"):
        TlsFiles(key="key.pem").context()


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"/absent/ca\.pem cannot be read"):
        TlsFiles(ca="/absent/ca.pem").context()


def test_files_that_do_not_fit_together_yet_leave_the_former_ones_in_use(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("pinlater.protocol.tls_context._CHECK_SECONDS", 0)
    authority = Authority(tmp_path, "authority")
    used, renewed = authority.issue("used"), authority.issue("renewed")
    files = TlsFiles(authority.ca, used.cert, used.key)
    former = files.context()
    assert files.context() is former
    shutil.copy(renewed.cert, used.cert)
    assert files.context() is former
    assert files.context() is former
    [record] = caplog.records
    assert "key values mismatch" in record.message
    assert "the files read before stay in use" in record.message
    shutil.copy(renewed.key, used.key)
    assert files.context() is not former

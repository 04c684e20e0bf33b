"""TLS contexts that follow their files."""

import ssl

import pytest

from pinlater.protocol.tls_context import CurrentTlsContext


@pytest.fixture
def current(monkeypatch):
    monkeypatch.setattr("pinlater.protocol.tls_context._CHECK_SECONDS", 0)
    return CurrentTlsContext()


def make():
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def refuse():
    raise PermissionError("the key cannot be read")


@pytest.mark.parametrize("is_changed_again", [True, False], ids=["access", "descriptors"])
def test_a_renewed_file_is_used_once_it_can_be_read(current, tmp_path, caplog, is_changed_again):
    """A renewal may write the file first, and give access to it later; or the process is short of descriptors."""
    key = tmp_path / "key.pem"
    key.write_text("former")
    former = current.latest([key, None], make)
    assert current.latest([key, None], refuse) is former, "it has not changed"
    key.write_text("renewed key")
    for _ in range(3):
        assert current.latest([key, None], refuse) is former
    if is_changed_again:
        key.chmod(0o640)
    renewed = current.latest([key, None], make)
    assert renewed is not former
    assert current.latest([key, None], make) is renewed
    [record] = caplog.records
    assert record.message == "the key cannot be read; the files read before stay in use"


def test_files_that_could_never_be_used_are_an_error(current, tmp_path):
    with pytest.raises(PermissionError):
        current.latest([tmp_path / "key.pem"], refuse)
    assert current.latest([tmp_path / "key.pem"], make)

"""Authorities, and servers with certificates of theirs."""

import pytest

from pinlater import TlsFiles
from tests.integration.tls.tls_server import DEADLINE_SECONDS, TlsServer
from tests.support.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture(scope="module")
def files(authority):
    return TlsFiles(ca=authority.ca)


@pytest.fixture(scope="module")
def server(tmp_path_factory, authority, files):
    issued = authority.issue("server")
    server = TlsServer(
        tmp_path_factory.mktemp("tls"),
        files,
        THRIFT_TLS_CERT=issued.cert,
        THRIFT_TLS_KEY=issued.key,
        PARTIAL_FRAME_TIMEOUT_SECONDS=DEADLINE_SECONDS,
    )
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="module")
def strict_server(tmp_path_factory, authority):
    """A server that wants certificates of its clients."""
    issued, ours = authority.issue("strict"), authority.issue("ours")
    server = TlsServer(
        tmp_path_factory.mktemp("strict"),
        TlsFiles(ca=authority.ca, cert=ours.cert, key=ours.key),
        THRIFT_TLS_CERT=issued.cert,
        THRIFT_TLS_KEY=issued.key,
        THRIFT_TLS_CLIENT_CA=authority.ca,
    )
    yield server
    assert server.stop() == 0

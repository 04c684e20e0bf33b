"""The address of a database server and its credentials."""

from __future__ import annotations

import ssl
from functools import lru_cache
from typing import NamedTuple

from pinlater.server.backends.tls_files import TlsFiles


class MysqlEndpoint(NamedTuple):
    """A MySQL or MariaDB server and the user to log in as."""

    host: str
    port: int
    user: str
    password: str
    tls: TlsFiles | None = None

    def __repr__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"  # goes into logs, so it must not contain the password


@lru_cache(maxsize=32)
def tls_context(tls: TlsFiles) -> ssl.SSLContext:
    """Return the TLS context for the driver, which checks that the server's certificate is valid for its host name.

    Raises:
        OSError: a file is missing or invalid.
    """
    context = ssl.create_default_context(cafile=tls.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key)
    return context

"""Where a database is, and how to get in."""

from __future__ import annotations

import ssl
from functools import lru_cache
from typing import NamedTuple


class Tls(NamedTuple):
    """Files for a connection by TLS: who signed the server's certificate (None: the system's authorities), and ours."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


class Place(NamedTuple):
    """One MySQL or MariaDB server, and the user on it."""

    host: str
    port: int
    user: str
    password: str
    tls: Tls | None = None

    def __repr__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"  # it gets into logs, where no password belongs


@lru_cache(maxsize=32)
def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return what the driver needs; the server has to prove that it is the host of its certificate.

    Raises:
        OSError: a file is missing, or not what it should be.
    """
    context = ssl.create_default_context(cafile=tls.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key)
    return context

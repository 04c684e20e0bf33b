"""The address of a database server and its credentials."""

from __future__ import annotations

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

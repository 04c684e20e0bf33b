"""The address of a shard and its credentials; with Sentinel, the master is looked up for every connection."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, NamedTuple

from redis.asyncio import Connection, SSLConnection
from redis.asyncio.sentinel import Sentinel

from pinlater.server.backends.redis.resp import RespConnection
from pinlater.server.backends.tls_files import TlsFiles, tls_context

_CLIENT_NAME = "pinlater-server"

Address = tuple[str, int]
"""Host and port."""


class RedisEndpoint(NamedTuple):
    """The server of a shard, as the shard file describes it.

    Attributes:
        master: address of the server; None: ask Sentinel for it.
        sentinels: addresses of Sentinel; empty: not used.
        service: name of the master in Sentinel.
        sentinel_password: password of all sentinels; None: they have none.
        db: number of the database on the server.
        username: the user to log in as; None: the default user.
        password: the user's password; None: the server asks for none.
        tls: files for TLS, also for connections to Sentinel; None: connections are not encrypted.
    """

    master: Address | None
    sentinels: tuple[Address, ...] = ()
    service: str = ""
    sentinel_password: str | None = None
    db: int = 0
    username: str | None = None
    password: str | None = None
    tls: TlsFiles | None = None

    def __repr__(self) -> str:
        """Return what logs may show, so not the password."""
        if self.master is not None:
            return f"{self.master[0]}:{self.master[1]}"
        return f"service {self.service!r} of Sentinel"

    async def open(self, connect_seconds: float) -> RespConnection:
        """Open a connection for calls, log in, and select the database.

        Raises:
            RedisError: no sentinel knows the present master, or the server refuses the log-in.
            OSError: the server cannot be reached.
        """
        host, port = self.master or await self._discover_master(connect_seconds)
        connection = await RespConnection.connect(host, port, None if self.tls is None else tls_context(self.tls))
        commands: list[tuple[Any, ...]] = [("CLIENT", "SETNAME", _CLIENT_NAME)]
        if self.username or self.password:
            commands.insert(0, ("AUTH", *((self.username,) if self.username else ()), self.password or ""))
        if self.db:
            commands.append(("SELECT", self.db))
        try:
            await asyncio.gather(*(connection.call(*command) for command in commands))
        except BaseException:
            connection.close()
            raise
        return connection

    async def subscription(self, connect_seconds: float) -> Connection:
        """Return a redis-py connection for job notifications; the caller opens it.

        Raises:
            RedisError: no sentinel knows the present master.
        """
        host, port = self.master or await self._discover_master(connect_seconds)
        options: dict[str, Any] = {
            "host": host,
            "port": port,
            "db": self.db,
            "username": self.username,
            "password": self.password,
            "protocol": 2,
            "socket_connect_timeout": connect_seconds,
            "socket_timeout": None,
            "socket_keepalive": True,
            "client_name": _CLIENT_NAME,
        }
        return Connection(**options) if self.tls is None else SSLConnection(**options, **_ssl_options(self.tls))

    async def _discover_master(self, seconds: float) -> Address:
        encryption = {} if self.tls is None else {"ssl": True, **_ssl_options(self.tls)}
        sentinel = Sentinel(  # type: ignore[no-untyped-call]
            self.sentinels,
            socket_connect_timeout=seconds,
            socket_timeout=seconds,
            password=self.sentinel_password,
            **encryption,
        )
        try:
            host, port = await sentinel.discover_master(self.service)
        finally:
            for client in sentinel.sentinels:
                await client.aclose()
        return str(host), int(port)


def _ssl_options(tls: TlsFiles) -> dict[str, Any]:
    return {
        "ssl_ca_certs": tls.ca,
        "ssl_certfile": tls.cert,
        "ssl_keyfile": tls.key,
        "ssl_min_version": ssl.TLSVersion.TLSv1_2,
    }

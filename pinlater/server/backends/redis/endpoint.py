"""Where a shard is and how to get in; with Sentinel, found anew for every connection."""

from __future__ import annotations

import ssl
from typing import Any, NamedTuple

from redis.asyncio import Connection, SSLConnection
from redis.asyncio.sentinel import Sentinel

Address = tuple[str, int]
"""Host and port."""


class Tls(NamedTuple):
    """Files for a connection by TLS: who signed the server's certificate (None: the system's authorities), and ours."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    def options(self) -> dict[str, Any]:
        """Return them as the driver takes them."""
        return {
            "ssl_ca_certs": self.ca,
            "ssl_certfile": self.cert,
            "ssl_keyfile": self.key,
            "ssl_min_version": ssl.TLSVersion.TLSv1_2,
        }


class Place(NamedTuple):
    """What the file of shards says of one.

    Attributes:
        master: of the server; None when Sentinel knows it.
        sentinels: addresses of Sentinel; none: not used.
        service: the name of the shard's servers there.
        sentinel_password: of all of these; None: not asked for.
        db: number of the database within the server.
        username: for Redis' access control; None: the default user.
        password: None: not asked for.
        tls: how connections are encrypted, to Sentinel, too; None: not at all.
    """

    master: Address | None
    sentinels: tuple[Address, ...] = ()
    service: str = ""
    sentinel_password: str | None = None
    db: int = 0
    username: str | None = None
    password: str | None = None
    tls: Tls | None = None

    def __repr__(self) -> str:
        """Return what may stand in a log, where no password belongs."""
        if self.master is not None:
            return f"{self.master[0]}:{self.master[1]}"
        return f"service {self.service!r} of Sentinel"

    async def connection(self, connect_seconds: float) -> Connection:
        """Return a connection that is yet to be opened.

        Raises:
            RedisError: no Sentinel knows the present master.
        """
        host, port = self.master or await self._found(connect_seconds)
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
            "client_name": "pinlater-server",
        }
        return Connection(**options) if self.tls is None else SSLConnection(**options, **self.tls.options())

    async def _found(self, seconds: float) -> Address:
        encryption = {} if self.tls is None else {"ssl": True, **self.tls.options()}
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

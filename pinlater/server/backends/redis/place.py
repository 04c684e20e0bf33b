"""Where a shard is and how to get in; with Sentinel, found anew for every connection."""

from __future__ import annotations

from typing import NamedTuple

from redis.asyncio import Connection, SSLConnection
from redis.asyncio.sentinel import Sentinel

Address = tuple[str, int]
"""Host and port."""


class Place(NamedTuple):
    """What the file of shards says of one.

    Attributes:
        master: of the server; None when Sentinel knows it.
        sentinels: addresses of Sentinel; none: not used.
        service: the name of the shard's servers there.
        db: number of the database within the server.
        username: for Redis' access control; None: the default user.
        password: None: not asked for.
        is_tls: whether connections are encrypted; certificates are checked by the system's authorities.
    """

    master: Address | None
    sentinels: tuple[Address, ...] = ()
    service: str = ""
    db: int = 0
    username: str | None = None
    password: str | None = None
    is_tls: bool = False

    def __str__(self) -> str:
        if self.master is not None:
            return f"{self.master[0]}:{self.master[1]}"
        return f"service {self.service!r} of Sentinel"

    async def connection(self, connect_seconds: float) -> Connection:
        """Return a connection that is yet to be opened.

        Raises:
            RedisError: no Sentinel knows the present master.
        """
        host, port = self.master or await self._found(connect_seconds)
        return (SSLConnection if self.is_tls else Connection)(
            host=host,
            port=port,
            db=self.db,
            username=self.username,
            password=self.password,
            protocol=2,
            socket_connect_timeout=connect_seconds,
            socket_timeout=None,
            socket_keepalive=True,
            client_name="pinlater-server",
        )

    async def _found(self, seconds: float) -> Address:
        sentinel = Sentinel(  # type: ignore[no-untyped-call]
            self.sentinels, socket_connect_timeout=seconds, socket_timeout=seconds, password=self.password
        )
        try:
            host, port = await sentinel.discover_master(self.service)
        finally:
            for client in sentinel.sentinels:
                await client.aclose()
        return str(host), int(port)

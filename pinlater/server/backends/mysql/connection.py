"""One connection: several statements in one packet, and closed as soon as nobody knows what it would say next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import asyncmy
from asyncmy.constants.CLIENT import FOUND_ROWS
from asyncmy.errors import MySQLError

from pinlater.server.backends.mysql.endpoint import Place, tls_context
from pinlater.server.backends.mysql.errors import Lost, Refused, Unreached, fault_of
from pinlater.server.backends.mysql.session import GREETING, Server

CONNECT_SECONDS = 2.0
"""A server that has not greeted us after this time is not there."""

_PACKET_MARGIN = 1024
_IDLE_MARGIN_SECONDS = 2.0


class Result(NamedTuple):
    """What one statement returned: its rows, how many it matched, the last id that it made."""

    rows: Sequence[tuple[Any, ...]]
    matched: int
    insert_id: int


class Connection:
    """An open connection; use ``Connection.open``.

    Attributes:
        max_packet_bytes: what fits into one packet to the server.
        idle_seconds: not to be used again after so long: the server may have closed it by then.
    """

    def __init__(self, raw: asyncmy.Connection) -> None:
        self._raw = raw
        self._is_open = True
        self.max_packet_bytes = 1 << 20
        self.idle_seconds = 0.0

    @classmethod
    async def open(cls, place: Place) -> Self:
        """Connect.

        Raises:
            Unreached: it was not possible, within ``CONNECT_SECONDS``.
        """
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connection = cls(await _connect(place))
                try:
                    await connection._begin()
                except BaseException:
                    connection.close()
                    raise
        except TimeoutError:
            raise Unreached(f"{place!r} did not answer within {CONNECT_SECONDS:g} s") from None
        except (MySQLError, OSError, Lost, Refused, RuntimeError) as error:  # RuntimeError: the log-in needs a package
            raise Unreached(f"{place!r}: {error}") from error
        return connection

    async def _begin(self) -> None:
        server = Server.of([result.rows for result in await self.run(*GREETING)])
        if server.objection:
            raise Lost(f"this server ({server.version}) cannot be a shard: {server.objection}")
        self.max_packet_bytes = server.max_packet - _PACKET_MARGIN
        self.idle_seconds = server.idle_seconds - _IDLE_MARGIN_SECONDS
        await self.run(*server.settings)

    @property
    def is_open(self) -> bool:
        """Whether it may be used again."""
        return self._is_open

    async def run(self, *statements: bytes) -> list[Result]:
        """Execute statements one after the other, in as few packets as they fit into; return what each returned.

        If one fails, those behind it are not executed; there is a transaction to be rolled back then, if there was
        one. When the connection breaks, or the caller is cancelled, it is closed: its next answer would be another
        call's.

        Raises:
            Lost, Conflict, UnknownError: see ``faults``.
        """
        results: list[Result] = []
        try:
            for packet in self._packets(statements):
                await self._send(packet, results)
        except MySQLError as error:
            fault = fault_of(error)
            if isinstance(fault, Lost):
                self.close()
            raise fault from error
        except Refused:
            raise
        except BaseException as error:
            self.close()
            if isinstance(error, OSError | EOFError):
                raise Lost(str(error)) from error
            raise
        return results

    async def _send(self, packet: bytes, results: list[Result]) -> None:
        async with self._raw.cursor() as cursor:
            await cursor.execute(packet)  # bytes go out as they are
            while True:
                matched: Any = cursor.rowcount
                results.append(Result(await cursor.fetchall(), matched, cursor.lastrowid))
                if not await cursor.nextset():
                    return

    def _packets(self, statements: Sequence[bytes]) -> list[bytes]:
        packets: list[list[bytes]] = []
        room = 0
        for statement in statements:
            size = len(statement) + 1
            if size > self.max_packet_bytes:
                raise Refused(
                    f"a statement of {size} bytes is more than the database takes, nothing was changed; raise "
                    f"max_allowed_packet there (now {self.max_packet_bytes + _PACKET_MARGIN}), or lower MAX_BODY_BYTES"
                )
            if size > room:
                packets.append([])
                room = self.max_packet_bytes
            packets[-1].append(statement)
            room -= size
        return [b";".join(packet) for packet in packets]

    def close(self) -> None:
        """Cut the connection; the server rolls back what was not committed."""
        self._is_open = False
        self._raw.close()


async def _connect(place: Place) -> asyncmy.Connection:
    return await asyncmy.connect(
        host=place.host,
        port=place.port,
        user=place.user,
        password=place.password,
        charset="utf8mb4",
        autocommit=True,
        client_flag=FOUND_ROWS,
        connect_timeout=CONNECT_SECONDS,
        ssl=tls_context(place.tls) if place.tls else None,
    )

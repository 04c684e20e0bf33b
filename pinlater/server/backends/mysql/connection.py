"""A connection that sends several statements in one packet, and is closed when its next answer would be ambiguous."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import asyncmy
import asyncmy.cursors
from asyncmy.constants.CLIENT import FOUND_ROWS
from asyncmy.errors import MySQLError

from pinlater.server.backends.mysql.errors import ConnectFailed, ConnectionLost, StatementRejected, classify
from pinlater.server.backends.mysql.session import SERVER_INFO_QUERIES, ServerInfo
from pinlater.server.backends.tls_files import TlsFiles, tls_context

CONNECT_SECONDS = 2.0
"""Timeout for opening a connection, session settings included."""

_PACKET_MARGIN = 1024
_IDLE_MARGIN_SECONDS = 2.0


class StatementResult(NamedTuple):
    """The result of one statement: its rows, the number of rows it matched, and the last id it generated."""

    rows: Sequence[tuple[Any, ...]]
    matched: int
    insert_id: int


class MysqlEndpoint(NamedTuple):
    """A MySQL or MariaDB server and the user to log in as."""

    host: str
    port: int
    user: str
    password: str
    tls: TlsFiles | None = None

    def __repr__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"  # goes into logs, so it must not contain the password


class _Cursor(asyncmy.cursors.Cursor):
    __slots__ = ()

    async def _show_warnings(self, conn: asyncmy.Connection) -> None:
        """Do not read warnings: it is a round trip, and MySQL warns of ``VALUES()``, which MariaDB needs."""


class MysqlConnection:
    """An open connection; use ``MysqlConnection.open``.

    Attributes:
        max_packet_bytes: largest packet that the server accepts.
        idle_seconds: after this long idle, the server may have closed it.
        sends_one_by_one: whether each statement is sent in its own packet.
    """

    def __init__(self, raw: asyncmy.Connection) -> None:
        self._raw = raw
        self._is_open = True
        self.max_packet_bytes = 1 << 20
        self.idle_seconds = 0.0
        self.sends_one_by_one = False

    @classmethod
    async def open(cls, endpoint: MysqlEndpoint) -> Self:
        """Open a connection and configure the session.

        Raises:
            ConnectFailed: connecting failed, or took longer than ``CONNECT_SECONDS``.
        """
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connection = cls(await _connect(endpoint))
                try:
                    await connection._start_session()
                except BaseException:
                    connection.close()
                    raise
        except TimeoutError:
            raise ConnectFailed(f"{endpoint!r} did not answer within {CONNECT_SECONDS:g} s") from None
        except (MySQLError, OSError, ConnectionLost, StatementRejected, RuntimeError) as error:
            raise ConnectFailed(f"{endpoint!r}: {error}") from error  # RuntimeError: the login needs another package
        return connection

    async def _start_session(self) -> None:
        server = ServerInfo.parse([result.rows for result in await self.run(*SERVER_INFO_QUERIES)])
        if server.incompatibility:
            raise ConnectionLost(f"this server ({server.version}) cannot be a shard: {server.incompatibility}")
        self.max_packet_bytes = server.max_packet - _PACKET_MARGIN
        self.idle_seconds = server.idle_seconds - _IDLE_MARGIN_SECONDS
        # Galera may silently roll back a transaction between two statements of a packet, in favor of another node's.
        # The next statement, such as COMMIT, then succeeds without those before it.
        self.sends_one_by_one = server.is_galera
        await self.run(*server.settings)

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self._is_open

    async def run(self, *statements: bytes) -> list[StatementResult]:
        """Execute statements in order, in as few packets as possible, and return their results.

        If one fails, those after it are not executed, and an open transaction has to be rolled back. If the connection
        breaks or the caller is cancelled, the connection is closed; otherwise the next caller would read this answer.

        Raises:
            ConnectionLost, TransactionConflict, UnknownError: see ``errors``.
        """
        results: list[StatementResult] = []
        try:
            for packet in self._packets(statements):
                await self._send(packet, results)
        except MySQLError as error:
            classified = classify(error)
            if isinstance(classified, ConnectionLost):
                self.close()
            raise classified from error
        except StatementRejected:
            raise
        except BaseException as error:
            self.close()
            if isinstance(error, OSError | EOFError):
                raise ConnectionLost(str(error)) from error
            raise
        return results

    async def _send(self, packet: bytes, results: list[StatementResult]) -> None:
        async with self._raw.cursor(_Cursor) as cursor:
            await cursor.execute(packet)  # bytes are sent unchanged
            while True:
                matched: Any = cursor.rowcount
                results.append(StatementResult(await cursor.fetchall(), matched, cursor.lastrowid))
                if not await cursor.nextset():
                    return

    def _packets(self, statements: Sequence[bytes]) -> list[bytes]:
        packets: list[list[bytes]] = []
        bytes_left = 0
        for statement in statements:
            size = len(statement) + 1
            if size > self.max_packet_bytes:
                raise StatementRejected(
                    f"a statement of {size} bytes is too large for the database, nothing was changed; raise its "
                    f"max_allowed_packet (now {self.max_packet_bytes + _PACKET_MARGIN}), or lower MAX_BODY_BYTES"
                )
            if size > bytes_left or self.sends_one_by_one:
                packets.append([])
                bytes_left = self.max_packet_bytes
            packets[-1].append(statement)
            bytes_left -= size
        return [b";".join(packet) for packet in packets]

    def close(self) -> None:
        """Close the connection; the server rolls back what was not committed."""
        self._is_open = False
        self._raw.close()


async def _connect(endpoint: MysqlEndpoint) -> asyncmy.Connection:
    return await asyncmy.connect(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user,
        password=endpoint.password,
        charset="utf8mb4",
        autocommit=True,
        client_flag=FOUND_ROWS,
        connect_timeout=CONNECT_SECONDS,
        ssl=tls_context(endpoint.tls) if endpoint.tls else None,
    )

"""A connection that speaks RESP, the protocol of Redis: it writes commands, and hands out the answers in order.

It is an asyncio protocol on top of hiredis, without tasks, streams or timers: these cost more than a call costs Redis.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

import hiredis
from redis.asyncio.connection import DefaultParser
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, ResponseError

MAX_ANSWER_BYTES = 512 * 1024 * 1024
"""Size limit of one answer; Redis stores no larger value."""

CLOSED_BY_SERVER = "Connection closed by server."

_INCOMPLETE = object()

LossHandler = Callable[[Iterable[asyncio.Future[Any]], str], None]
"""Takes the futures of commands that will not be answered, and the reason; it has to complete each future."""


class RespConnection(asyncio.Protocol):
    """A connection to a Redis server; ``connect`` opens it, and it is never reopened.

    Attributes:
        on_answered: called when all commands that were sent are answered.
        on_lost: called once, when the connection is closed; see ``LossHandler``.
    """

    def __init__(self) -> None:
        self.on_answered: Callable[[], None] = lambda: None
        self.on_lost: LossHandler = _raise_in_callers
        self._unanswered: deque[asyncio.Future[Any]] = deque()
        self._unparsed_bytes = 0
        self._is_lost = False
        self._transport: asyncio.Transport | None = None
        self._reader = hiredis.Reader(
            protocolError=InvalidResponse,
            replyError=DefaultParser.parse_error,
            notEnoughData=_INCOMPLETE,
        )

    @classmethod
    async def connect(cls, host: str, port: int, context: ssl.SSLContext | None) -> RespConnection:
        """Open a connection, encrypted if there is a TLS context.

        Raises:
            OSError: it could not be opened.
        """
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, host, port, ssl=context)
        return connection

    @property
    def is_open(self) -> bool:
        """Whether commands can be sent."""
        return not self._is_lost and self._transport is not None and not self._transport.is_closing()

    def call(self, *command: Any) -> asyncio.Future[Any]:
        """Send a command and return the future of its answer.

        Raises:
            RedisError: by the future; the connection was closed, or Redis refused the command.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.is_open:
            self.send(hiredis.pack_command(command), (future,))
        else:
            future.set_exception(RedisConnectionError(CLOSED_BY_SERVER))
        return future

    def send(self, packed: bytes, futures: Iterable[asyncio.Future[Any]]) -> None:
        """Write packed commands at once; each future gets the answer to its command, or the error from Redis."""
        self._unanswered.extend(futures)
        cast("asyncio.Transport", self._transport).write(packed)

    def close(self, reason: str = "the connection was closed") -> None:
        """Close the connection without waiting for outstanding answers."""
        if self._transport is not None:
            self._transport.close()
        self._lose(reason)

    def abort(self, reason: str) -> None:
        """Close the connection to a server that does not answer, and drop data that is not written yet."""
        if self._transport is not None:
            self._transport.abort()
        self._lose(reason)

    # Called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        if self._is_lost:  # nobody waits for what arrives after a timeout
            return
        try:
            self._reader.feed(data)
            is_answered = self._answer_callers()
        except (InvalidResponse, RedisConnectionError, MemoryError) as error:
            self.abort(str(error) or "an answer does not fit into memory")
            return
        if is_answered:
            self._unparsed_bytes = 0
            if not self._unanswered:
                self.on_answered()
            return
        self._unparsed_bytes += len(data)
        if self._unparsed_bytes > MAX_ANSWER_BYTES:
            self.abort(f"an answer is larger than {MAX_ANSWER_BYTES} bytes")

    def eof_received(self) -> None:
        self._lose(CLOSED_BY_SERVER)

    def connection_lost(self, error: Exception | None) -> None:
        self._lose(str(error) if error else CLOSED_BY_SERVER)

    def _answer_callers(self) -> bool:
        """Hand out the answers that are complete; return whether there was one.

        Raises:
            InvalidResponse: the data is not RESP, or is an answer to no command.
            RedisConnectionError: the server takes no commands, for instance because it is loading its data.
        """
        unanswered, next_answer = self._unanswered, self._reader.gets
        is_answered = False
        while (answer := next_answer(False)) is not _INCOMPLETE:
            if not unanswered:
                raise InvalidResponse("an answer to no command")
            if isinstance(answer, RedisConnectionError):
                raise answer
            is_answered = True
            future = unanswered.popleft()
            if future.done():  # its caller is gone
                continue
            if isinstance(answer, ResponseError):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        return is_answered

    def _lose(self, reason: str) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        unanswered, self._unanswered = self._unanswered, deque()
        self.on_lost(unanswered, reason)


def _raise_in_callers(unanswered: Iterable[asyncio.Future[Any]], reason: str) -> None:
    for future in unanswered:
        if not future.done():
            future.set_exception(RedisConnectionError(reason))

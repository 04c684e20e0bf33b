"""Bytes <-> calls: connections, frames, order, limits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import deque
from typing import Any, cast

from pinlater.errors import ProtocolError, ServiceError, UnknownError
from pinlater.server.broker import Caller
from pinlater.server.calls import CallRefused
from pinlater.server.metrics import Metrics
from pinlater.server.service import Answer, Service
from pinlater.server.settings import Settings
from pinlater.wire.codec import Call, Codec
from pinlater.wire.framing import FrameSplitter, FrameTooLarge
from pinlater.wire.guard import MalformedMessage

log = logging.getLogger(__name__)

MAX_FRAMES_AHEAD = 16
"""Calls that one connection may have sent ahead of their answers before it is not read any more."""

LARGE_FRAME_BYTES = 512 * 1024
"""Calls of at least this size are decoded in a thread: millions of tiny fields would hold up everybody else."""

_SWEEP_SECONDS = 1.0


class Transport:
    """Listens, keeps all connections, and lets go of those that idle or dawdle.

    Args:
        service: carries out the calls.
        settings: limits and times.
        metrics: told of what happens.
    """

    def __init__(self, service: Service, settings: Settings, metrics: Metrics) -> None:
        self.service = service
        self.settings = settings
        self.metrics = metrics
        self.codec = Codec()
        self.slots = asyncio.Semaphore(settings.max_concurrent_requests)
        self.is_draining = False
        self._all_closed = asyncio.Event()
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> int:
        """How many are open now."""
        return len(self._connections)

    async def listen(self, listener: socket.socket) -> None:
        """Serve the connections that ``listener`` accepts from now on."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), sock=listener, backlog=1024)
        self._sweep = loop.call_later(_SWEEP_SECONDS, self._let_go_of_idlers)

    async def drain(self, deadline: float) -> None:
        """Accept nothing new, answer what has been sent, close all; by ``deadline`` of the loop's clock."""
        self.is_draining = True
        if self._server is not None:
            self._server.close()
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._connections):
            connection.close_when_answered()
        self._note_if_empty()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self._all_closed.wait()
        for connection in list(self._connections):
            connection.abort("the server stops")

    def opened(self, connection: Connection) -> bool:
        """Admit a connection, unless there are too many."""
        if len(self._connections) >= self.settings.max_connections:
            self.metrics.connections_refused.add()
            return False
        self.metrics.connections_opened.add()
        self._connections.add(connection)
        return True

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        self._connections.discard(connection)
        self._note_if_empty()

    def _note_if_empty(self) -> None:
        if self.is_draining and not self._connections:
            self._all_closed.set()

    def _let_go_of_idlers(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = loop.call_later(_SWEEP_SECONDS, self._let_go_of_idlers)
        now = loop.time()
        for connection in list(self._connections):
            connection.check_progress(now)


class Connection(asyncio.Protocol):
    """One client: its frames are answered one after the other, in order (wire contract §1)."""

    def __init__(self, owner: Transport) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._caller = Caller()
        self._splitter = FrameSplitter(owner.settings.max_frame_bytes)
        self._frames: deque[bytes] = deque()
        self._serving: asyncio.Task[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport
        self._active_at = self._loop.time()
        self._frame_began_at: float | None = None

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        if not self._owner.opened(self):
            log.warning("connection refused: %d are open (MAX_CONNECTIONS)", self._owner.connections)
            self._transport.abort()

    def connection_lost(self, _: Exception | None) -> None:
        self._owner.closed(self)
        self._frames.clear()
        self._caller.hang_up()
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        self._active_at = self._loop.time()
        try:
            frames = self._splitter.feed(data)
        except FrameTooLarge as error:
            self._refuse(error)
            return
        if not self._splitter.has_partial_frame:
            self._frame_began_at = None
        elif frames or self._frame_began_at is None:
            self._frame_began_at = self._active_at
        if not frames:
            return
        self._frames += frames
        if self._serving is None:
            self._serving = self._loop.create_task(self._serve())
        else:
            self._caller.interrupt()  # a client that goes on does not want to wait any more
            if len(self._frames) >= MAX_FRAMES_AHEAD:
                self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None:
            if not self._writable.done():
                self._writable.set_result(None)
            self._writable = None

    # Ours

    def check_progress(self, now: float) -> None:
        """Close a connection on which nothing happens, or a frame does not come to its end."""
        settings = self._owner.settings
        silence = now - self._active_at
        if self._writable is not None and silence > settings.partial_frame_timeout_seconds:
            self.abort("the client does not read its answers")
        elif self._serving is None:
            began_at = now if self._frame_began_at is None else self._frame_began_at
            if now - began_at > settings.partial_frame_timeout_seconds:
                self.abort("a call that had begun did not come to its end")
            elif silence > settings.max_idle_seconds:
                self._transport.close()

    def close_when_answered(self) -> None:
        """Close now, or after the calls that have been received."""
        if self._serving is None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Drop the connection."""
        log.info("connection from %s dropped: %s", self._transport.get_extra_info("peername"), reason)
        self._transport.abort()

    def _refuse(self, error: Exception) -> None:
        self._owner.metrics.frames_refused.add()
        self.abort(str(error))

    async def _serve(self) -> None:
        """Answer frames until none is left."""
        try:
            while self._frames:
                frame = self._frames.popleft()
                self._caller.is_hurried = bool(self._frames)
                if len(self._frames) < MAX_FRAMES_AHEAD:
                    self._transport.resume_reading()
                await self._answer(await self._decode(frame))
                if self._writable is not None:
                    await self._writable
        except MalformedMessage as error:
            self._refuse(error)
        except Exception:
            log.exception("a connection failed")
            self._transport.abort()
        finally:
            self._serving = None
            self._active_at = self._loop.time()
            if self._owner.is_draining:
                self._transport.close()

    async def _decode(self, frame: bytes) -> Call:
        if len(frame) < LARGE_FRAME_BYTES:
            return self._owner.codec.decode_call(frame)
        return await asyncio.to_thread(Codec().decode_call, frame)

    async def _answer(self, call: Call) -> None:
        codec, method, sequence_id = self._owner.codec, call.method, call.sequence_id
        answer = Answer(None)
        try:
            answer = await self._carry_out(call)
            reply = codec.encode_reply(method, sequence_id, answer.success)
        except ServiceError as error:
            reply = codec.encode_service_error(method, sequence_id, error)
        except CallRefused as refusal:
            reply = codec.encode_application_error(method, sequence_id, refusal.kind, str(refusal))
        except ProtocolError as error:
            log.exception("the answer to %s cannot be sent", method)
            reply = codec.encode_service_error(method, sequence_id, UnknownError(str(error)))
            await _undo(answer)
        if self._caller.is_gone or self._transport.is_closing():
            await _undo(answer)
        else:
            self._transport.write(reply)

    async def _carry_out(self, call: Call) -> Answer:
        if _may_wait(call):  # waiting takes no slot
            return await self._owner.service.call(call.method, call.arguments, self._caller)
        async with self._owner.slots:
            return await self._owner.service.call(call.method, call.arguments, self._caller)


def _may_wait(call: Call) -> bool:
    request: Any = getattr(call.arguments, "request", None)
    return bool(getattr(request, "waitMillis", None))


async def _undo(answer: Answer) -> None:
    if answer.undo is not None:
        log.info("an answer could not be delivered; its jobs are given back")
        await answer.undo()

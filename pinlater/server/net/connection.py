"""One connection: bytes -> calls -> answers, in order."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from typing import TYPE_CHECKING, cast

from pinlater.errors import ProtocolError, ServiceError, UnknownError
from pinlater.protocol import messages as wire
from pinlater.protocol.codec import PROTOCOL_ERROR, Call, CallTooLarge, Codec, TakesLong
from pinlater.protocol.framing import FrameSplitter, FrameTooLarge
from pinlater.protocol.guard import MalformedMessage
from pinlater.protocol.stopping import STOPPING_FRAME
from pinlater.server.api.calls import Answer, CallRefused, hears_stopping, may_wait
from pinlater.server.broker import Caller
from pinlater.server.log_rate_limit import LogRateLimit
from pinlater.server.net.memory_budget import FREE_BYTES
from pinlater.server.net.tls_transport import HandshakeFailed, SecureTransport, speaks_tls

if TYPE_CHECKING:
    from pinlater.server.net.peers import Peer
    from pinlater.server.net.transport import Transport

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())

MAX_FRAMES_AHEAD = 16
"""Calls that one connection may have sent ahead of their answers before it is not read any more."""

LARGE_FRAME_BYTES = 512 * 1024
"""Calls of at least this size, or with very many parts, are decoded in a thread: they would hold up everybody else."""

_TURN_BYTES = 64 * 1024
"""Of calls that one connection has answered before the others have their turn; a call counts a sixteenth at least."""

_PROGRESS_BYTES = 64 * 1024
"""A peer that has read so much more of its answers is reading, however slowly."""

_STALL_SECONDS = 2.0
"""A large call that has begun and stops coming has this long, once others wait for its room."""

_LINGER_SECONDS = 1.0
"""A peer whose handshake failed has time to read why: closing over what it still sends would wipe that out."""


_PARTING_SECONDS = 0.25
"""When the server stops, a peer that has just connected has this long to call; one that is told of it, to close."""


class Connection(asyncio.Protocol):
    """One client: its frames are answered one after the other, in order (wire contract §1).

    Args:
        owner: of all connections.
        tls: what it is to be made with; None: it is plain.
    """

    def __init__(self, owner: Transport, tls: ssl.SSLContext | None = None) -> None:
        self._owner = owner
        self._tls = tls
        self._secure: SecureTransport | None = None
        self._peer: Peer | None = None
        self._failed_at: float | None = None
        self._loop = asyncio.get_running_loop()
        self._caller = Caller()
        self._splitter = FrameSplitter(owner.settings.max_frame_bytes)
        self._frames: deque[bytes] = deque()
        self._frames_bytes = 0
        self._waits_for_room = self._is_unread = False
        self._serving: asyncio.Task[None] | None = None
        self._writable: asyncio.Future[bool] | None = None
        self._unread_bytes = 0
        self._has_peer_ended = self._is_exact = False
        self._hears_stopping: bool | None = None  # it has not called yet
        self._is_over = False
        self._transport: asyncio.Transport | SecureTransport
        self._active_at = self._loop.time()
        self._frame_began_at: float | None = None

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        network = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._transport = network
        self._peer = self._owner.opened(self, _address(network))
        if self._peer is None:
            network.abort()
            return
        if self._tls is not None:
            self._transport = self._secure = SecureTransport(network, self._tls)
        if self._owner.is_draining:
            self.close_when_answered()

    def connection_lost(self, _: Exception | None) -> None:
        if self._peer is not None:
            self._owner.closed(self, self._peer)
        self._frames.clear()
        self._caller.hang_up()
        self._release_writer(is_all_sent=False)

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        if self._secure is not None:
            data = self._decrypted(self._secure, data)
        if data:
            self._take(data)
        if self._secure is not None and self._secure.has_peer_ended and not self.eof_received():
            self._transport.close()

    def _take(self, data: bytes) -> None:
        self._active_at = self._loop.time()
        try:
            frames = self._splitter.feed(data)
        except FrameTooLarge as error:
            hint = "; it speaks TLS, which this port does not (THRIFT_TLS_CERT)" if speaks_tls(data) else ""
            self._refuse(f"{error}{hint}")
            return
        if not self._splitter.has_partial_frame:
            self._frame_began_at = None
        elif frames or self._frame_began_at is None:
            self._frame_began_at = self._active_at
        if frames:
            self._frames += frames
            self._frames_bytes += sum(map(len, frames))
            if self._serving is None:
                self._serving = self._loop.create_task(self._serve())
            else:
                self._caller.interrupt()  # a client that goes on does not want to wait any more
        self._ask_for_room()

    def eof_received(self) -> bool:
        """Let a peer that says no more have the answers to what it has said; but no jobs that it would have waited for.

        It may as well be a worker that was killed: what it sent last would be a dequeue that may wait.
        """
        if self._serving is None:
            return False
        self._has_peer_ended = True
        self._caller.interrupt()
        return True

    def _ask_for_room(self) -> None:
        """Account for the calls that are here and not answered, and for the one that has begun to come."""
        if self._caller.is_gone:
            return
        count = self._frames_bytes + self._splitter.announced
        room = self._owner.calls
        if count > FREE_BYTES or self._waits_for_room or room.holds(self):
            self._waits_for_room = not room.ask(self, count if count > FREE_BYTES else 0)
        self._read_on_or_not()

    def admitted(self) -> None:
        """Read on: there is room for the call that has begun."""
        self._waits_for_room = False
        self._read_on_or_not()

    def _read_on_or_not(self) -> None:
        """Let the peer wait while it is too far ahead, does not read what it asked for, or there is no room."""
        is_unread = self._waits_for_room or self._writable is not None or len(self._frames) >= MAX_FRAMES_AHEAD
        # Once the server stops, nothing more is taken from a peer who will be told so; then what it sends is dropped.
        is_unread = (is_unread or (self._owner.is_draining and self._hears_stopping is True)) and not self._is_over
        if is_unread == self._is_unread or self._has_peer_ended or self._transport.is_closing():
            return
        self._is_unread = is_unread
        if is_unread:
            self._transport.pause_reading()
            return
        self._transport.resume_reading()
        if self._frame_began_at is not None:  # it could not go on before
            self._active_at = self._frame_began_at = self._loop.time()

    def _decrypted(self, secure: SecureTransport, data: bytes) -> bytes:
        """Return what the peer said, if anything yet."""
        if self._failed_at is not None:
            return b""
        try:
            return secure.feed(data)
        except HandshakeFailed as failure:
            self._owner.metrics.handshakes_failed.add()
            self._failed_at = self._loop.time()
            log.info("TLS handshake with %s failed: %s", _address(secure), failure)
        except ssl.SSLError as error:
            self._refuse(f"damaged TLS: {error}")
        return b""

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()
        self._active_at = self._loop.time()
        self._unread_bytes = self._transport.get_write_buffer_size()
        self._read_on_or_not()

    def resume_writing(self) -> None:
        self._owner.answers.take(self)
        self._release_writer(is_all_sent=True)
        self._read_on_or_not()

    def _release_writer(self, *, is_all_sent: bool) -> None:
        if self._writable is not None:
            if not self._writable.done():
                self._writable.set_result(is_all_sent)
            self._writable = None

    # Ours

    def check_progress(self, now: float) -> None:
        """Close a connection on which nothing happens, or a handshake or frame does not come to its end."""
        settings = self._owner.settings
        if self._writable is not None and not self._transport.is_closing():
            self._check_reading(now)
        silence = now - self._active_at
        if self._failed_at is not None:
            if now - self._failed_at > _LINGER_SECONDS:
                self._transport.abort()
        elif self._secure is not None and not self._secure.is_established:
            if silence > self._owner.handshake_seconds:
                self._owner.metrics.handshakes_failed.add()
                self.abort("its TLS handshake did not come to its end")
        elif self._writable is not None and silence > settings.partial_frame_timeout_seconds:
            self.abort("the client does not read its answers")
        elif self._waits_for_room:
            pass  # its peer is not to blame
        elif silence > _STALL_SECONDS and not self._is_unread and self._has_room_that_others_want:
            self.abort("a large call that had begun came no further, and others wait for its room")
        elif self._serving is None:
            began_at = now if self._frame_began_at is None else self._frame_began_at
            if now - began_at > settings.partial_frame_timeout_seconds:
                self.abort("a call that had begun did not come to its end")
            elif silence > settings.max_idle_seconds:
                self._transport.close()

    def _check_reading(self, now: float) -> None:
        unread_bytes = self._transport.get_write_buffer_size()
        if self._unread_bytes - unread_bytes >= _PROGRESS_BYTES:
            self._active_at = now
            self._owner.answers.put(self, unread_bytes)
            self._unread_bytes = unread_bytes

    @property
    def _has_room_that_others_want(self) -> bool:
        calls = self._owner.calls
        return self._splitter.announced > FREE_BYTES and calls.is_wanted and calls.holds(self)

    def close_when_answered(self) -> None:
        """Close now, or after the calls that have been received."""
        if self._serving is None:
            self._leave()
        else:
            self._read_on_or_not()

    def _leave(self) -> None:
        """Close; as soon as the peer knows which of its calls are not carried out, if it wants to know."""
        if self._has_peer_ended or self._hears_stopping is False or self._transport.is_closing():
            self._transport.close()
            return
        if self._hears_stopping:
            self._is_over = True
            self._transport.write(STOPPING_FRAME)
            self._read_on_or_not()
        self._loop.call_later(_PARTING_SECONDS, self._part)

    def _part(self) -> None:
        if self._serving is None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Drop the connection."""
        log.info("connection from %s dropped: %s", self._transport.get_extra_info("peername"), reason)
        self._transport.abort()

    def _refuse(self, reason: str) -> None:
        self._owner.metrics.frames_refused.add()
        self.abort(reason)

    async def _serve(self) -> None:
        """Answer frames until none is left."""
        try:
            turn_bytes = 0
            while self._frames:
                size = len(self._frames[0])
                call = self._next_call()
                answer = await (self._answer_large() if call is None else self._answer(call))
                del call
                self._frames_bytes -= size
                self._ask_for_room()
                turn_bytes += max(size, _TURN_BYTES // 16)
                if self._writable is not None:
                    if not await self._writable:
                        await _undo(answer)
                elif turn_bytes >= _TURN_BYTES:
                    turn_bytes = 0
                    await asyncio.sleep(0)  # calls that wait for nothing would leave no turn to others
        except MalformedMessage as error:
            self._refuse(str(error))
        except Exception:
            log.exception("a connection failed")
            self._transport.abort()
        finally:
            self._serving = None
            self._active_at = self._loop.time()
            if self._owner.is_draining:
                self._leave()
            elif self._has_peer_ended:
                self._transport.close()

    def _next_call(self) -> Call | None:
        """Return the next call, if that is soon decoded."""
        frame = self._frames[0]
        if len(frame) >= LARGE_FRAME_BYTES:
            return None
        try:
            call = self._owner.codec.decode_call(frame, is_hurried=True)
        except TakesLong:
            return None
        self._frames.popleft()
        # None waits with its room, nor for somebody who may be gone.
        self._caller.is_hurried = bool(self._frames) or len(frame) > FREE_BYTES or self._has_peer_ended
        self._read_on_or_not()
        return call

    async def _answer_large(self) -> Answer:
        """Answer a call that takes much time and memory; it stays with those that came until its turn."""
        async with self._owner.large:
            if self._caller.is_gone:
                return Answer(None)
            frame = self._frames.popleft()
            self._caller.is_hurried = True
            self._read_on_or_not()
            try:
                call = await asyncio.to_thread(Codec().decode_call, frame)
            except CallTooLarge as error:
                method, number = error.method, error.sequence_id
                self._send(self._owner.codec.encode_application_error(method, number, PROTOCOL_ERROR, str(error)))
                return Answer(None)
            del frame  # what it says is copied by now
            return await self._answer(call)

    async def _answer(self, call: Call) -> Answer:
        """Carry out a call and send its answer; return it, since the peer may not read it to its end."""
        codec, method, sequence_id = self._owner.codec, call.method, call.sequence_id
        if self._hears_stopping is None:
            self._hears_stopping = hears_stopping(call)
        answer = Answer(None)
        try:
            answer = await self._carry_out(call)
            if self._has_peer_ended and may_wait(call):
                await _undo(answer)
                answer = Answer(wire.PinLaterDequeueResponse())
            reply = codec.encode_reply(method, sequence_id, answer.success)
        except ServiceError as error:
            reply = codec.encode_service_error(method, sequence_id, error)
        except CallRefused as refusal:
            reply = codec.encode_application_error(method, sequence_id, refusal.kind, str(refusal))
        except ProtocolError as error:
            log.exception("the answer to %s cannot be sent", method)
            reply = codec.encode_service_error(method, sequence_id, UnknownError(str(error)))
            await _undo(answer)
            answer = Answer(None)
        if self._send(reply, must_arrive=answer.undo is not None):
            return answer
        await _undo(answer)
        return Answer(None)

    def _send(self, reply: bytes, *, must_arrive: bool = False) -> bool:
        """Return whether there was somebody to send a reply to."""
        if self._caller.is_gone or self._transport.is_closing():
            return False
        if must_arrive and not self._is_exact:
            self._is_exact = True
            self._transport.set_write_buffer_limits(0)  # from now on writing is paused until the peer was sent all
        self._transport.write(reply)
        if self._writable is not None:
            self._owner.answers.put(self, len(reply))
        return not self._transport.is_closing()  # it is if the peer is gone

    async def _carry_out(self, call: Call) -> Answer:
        if may_wait(call):  # waiting takes no slot
            return await self._owner.service.call(call.method, call.arguments, self._caller)
        assert self._peer is not None
        async with self._peer.slots, self._owner.slots:  # its own first, so that it waits at its own cost
            return await self._owner.service.call(call.method, call.arguments, self._caller)


def _address(transport: asyncio.Transport | SecureTransport) -> str:
    """Return the host that a connection comes from; empty for a Unix socket."""
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) else ""


async def _undo(answer: Answer) -> None:
    if answer.undo is not None:
        log.info("an answer could not be delivered; its jobs are given back")
        await answer.undo()

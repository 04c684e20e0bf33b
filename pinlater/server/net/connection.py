"""Serve one client connection: read frames, carry out their calls, write the replies in order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, cast

from pinlater.errors import ProtocolError, ServiceError, UnknownError
from pinlater.protocol.codec import PROTOCOL_ERROR, Codec, DecodedCall, SlowToDecode, UnusableCall
from pinlater.protocol.conversion.jobs import dequeue_reply
from pinlater.protocol.enqueue_head import EnqueueHead
from pinlater.protocol.framing import FrameSplitter, FrameTooLarge
from pinlater.protocol.guard import MalformedMessage
from pinlater.protocol.stopping import STOPPING_FRAME
from pinlater.protocol.strangers import hint_about_client
from pinlater.server.api.calls import NO_REPLY, CallRefused, CallReply, may_wait, wants_stopping_notice
from pinlater.server.api.eager_tasks import start_task
from pinlater.server.broker import Caller
from pinlater.server.log_rate_limit import LogRateLimit
from pinlater.server.net.memory_budget import UNBUDGETED_BYTES
from pinlater.server.net.peers import host_of

if TYPE_CHECKING:
    from pinlater.server.net.peers import Peer
    from pinlater.server.net.thrift_server import ThriftServer
    from pinlater.server.net.tls_transport import TlsTransport

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())

MAX_FRAMES_AHEAD = 16
"""Pipelined calls of one connection; with more, the server stops reading from it until some are answered."""

LARGE_FRAME_BYTES = 512 * 1024
"""Calls of at least this size, or with very many elements, are decoded in a thread, off the event loop."""

_BYTES_PER_TURN = 64 * 1024
"""Bytes of calls that one connection serves before it yields to others; a small call counts as a sixteenth of it."""

_PROGRESS_BYTES = 64 * 1024
"""A client that has read this much more of its replies counts as reading, however slowly."""

_STALL_SECONDS = 2.0
"""How long a half-received large call may stall while other calls wait for its memory."""

_STOPPING_NOTICE_SECONDS = 0.25
"""When the server stops: how long a new client can still send a call, and a notified one has to disconnect."""


class ClientConnection(asyncio.Protocol):
    """Serves one client: its frames are answered one after the other, in order (wire contract §1).

    Args:
        owner: the server that has accepted it.
    """

    _transport: asyncio.Transport | TlsTransport

    def __init__(self, owner: ThriftServer) -> None:
        self._owner = owner
        self._peer: Peer | None = None
        self._loop = asyncio.get_running_loop()
        self._caller = Caller()
        self._active_at = self._loop.time()
        # Received: the frames of calls that are not answered yet, and a partial one
        self._splitter = FrameSplitter(owner.settings.max_frame_bytes)
        self._frame_began_at: float | None = None
        self._frames: deque[bytes] = deque()
        self._pending_bytes = 0
        self._waits_for_memory = self._is_budgeted = self._is_paused = self._peer_sent_eof = False
        # Served
        self._task: asyncio.Task[None] | None = None  # the event loop has only a weak reference
        self._is_serving = False
        self._enqueue_head = EnqueueHead()
        # Sent: while the client does not read its replies, a future, whose result says whether it has read all
        self._blocked: asyncio.Future[bool] | None = None
        self._unread_bytes = 0
        self._flushes_every_write = False
        self._wants_stopping_notice: bool | None = None  # unknown before its first call
        self._has_sent_stopping = False

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        network = cast("asyncio.Transport", transport)  # uvloop's is not a subclass
        self._transport = network
        self._peer = self._owner.admit(self, host_of(network))
        if self._peer is None:
            network.abort()
            return
        self._caller.slots = self._peer.call_slots
        if self._owner.is_draining:
            self.close_when_answered()

    def connection_lost(self, error: Exception | None) -> None:
        self._pending_bytes -= sum(map(len, self._frames))
        self._frames.clear()
        self._splitter = FrameSplitter()
        if self._peer is not None:
            report = self._caller.report if self._peer_sent_eof or error else None
            unfinished = self._task if self._is_serving else None
            self._owner.forget(self, self._peer, report, unfinished, self._pending_bytes)
        self._caller.disconnect()
        self._unblock(is_all_sent=False)

    def data_received(self, data: bytes) -> None:
        if self._has_sent_stopping:
            return
        self._active_at = self._loop.time()
        try:
            frames = self._splitter.feed(data)
        except FrameTooLarge as error:
            self._reject(f"{error}{hint_about_client(data)}")
            return
        if not (announced := self._splitter.announced):
            self._frame_began_at = None
        elif frames or self._frame_began_at is None:
            self._frame_began_at = self._active_at
        if frames:
            self._frames += frames
            self._pending_bytes += len(frames[0]) if len(frames) == 1 else sum(map(len, frames))
            if not self._is_serving:
                self._is_serving = True
                self._task = start_task(self._loop, self._serve())
            else:
                self._caller.interrupt()  # a client that sends another call ends its wait
        if self._is_budgeted or self._pending_bytes + announced > UNBUDGETED_BYTES:
            self._update_budget()
        elif len(self._frames) >= MAX_FRAMES_AHEAD:
            self._update_reading()

    def eof_received(self) -> bool:
        """Answer the calls already received, but hand out no jobs to a dequeue that may wait.

        The client may be a worker that was killed, whose last call was such a dequeue.
        """
        self._peer_sent_eof = True
        if not self._is_serving:
            return False
        self._caller.interrupt()
        return True

    def _update_budget(self) -> None:
        """Charge the budget for the unanswered calls and for the partially received one."""
        if self._caller.is_gone:
            return
        count = self._pending_bytes + self._splitter.announced
        self._is_budgeted = count > UNBUDGETED_BYTES
        self._waits_for_memory = not self._owner.call_budget.request(self, count if self._is_budgeted else 0)
        self._update_reading()

    def on_budget_granted(self) -> None:
        """Resume reading: the budget has memory for the partially received call."""
        self._waits_for_memory = False
        self._update_reading()

    def _update_reading(self) -> None:
        """Pause reading while too many calls are pipelined, replies are unread, or the budget is used up."""
        is_paused = not self._has_sent_stopping and (
            self._waits_for_memory
            or self._blocked is not None
            or len(self._frames) >= MAX_FRAMES_AHEAD
            # While the server stops, clients that get the stopping notice are not read; later data is dropped.
            or (self._owner.is_draining and self._wants_stopping_notice is True)
        )
        if is_paused == self._is_paused or self._peer_sent_eof or self._transport.is_closing():
            return
        self._is_paused = is_paused
        if is_paused:
            self._transport.pause_reading()
            return
        self._transport.resume_reading()
        if self._frame_began_at is not None:  # the client could not send the rest before
            self._active_at = self._frame_began_at = self._loop.time()

    def pause_writing(self) -> None:
        self._blocked = self._loop.create_future()
        self._active_at = self._loop.time()
        self._unread_bytes = self._transport.get_write_buffer_size()
        self._update_reading()

    def resume_writing(self) -> None:
        self._owner.answer_budget.release(self)
        self._unblock(is_all_sent=True)
        self._update_reading()

    def _unblock(self, *, is_all_sent: bool) -> None:
        if self._blocked is not None:
            if not self._blocked.done():
                self._blocked.set_result(is_all_sent)
            self._blocked = None

    # Called by the server

    def check_progress(self, now: float) -> None:
        """Close the connection if it is idle, or if a call or a reply makes no progress."""
        settings = self._owner.settings
        if self._blocked is not None and not self._transport.is_closing():
            self._check_read_progress(now)
        silence = now - self._active_at
        if self._blocked is not None and silence > settings.partial_frame_timeout_seconds:
            self.abort("the client does not read its replies")
        elif self._waits_for_memory:
            pass  # the server keeps the client waiting
        elif silence > _STALL_SECONDS and not self._is_paused and self._blocks_waiting_calls:
            self.abort("a large call stalled while other calls wait for its memory")
        elif not self._is_serving:
            began_at = now if self._frame_began_at is None else self._frame_began_at
            if now - began_at > settings.partial_frame_timeout_seconds:
                self.abort("a call was not received completely in time (PARTIAL_FRAME_TIMEOUT_SECONDS)")
            elif silence > settings.max_idle_seconds:
                self._transport.close()

    def _check_read_progress(self, now: float) -> None:
        unread_bytes = self._transport.get_write_buffer_size()
        if self._unread_bytes - unread_bytes >= _PROGRESS_BYTES:
            self._active_at = now
            self._owner.answer_budget.record_unread(self, unread_bytes)
            self._unread_bytes = unread_bytes

    @property
    def _blocks_waiting_calls(self) -> bool:
        budget = self._owner.call_budget
        return self._splitter.announced > UNBUDGETED_BYTES and budget.has_waiting and budget.holds(self)

    def close_when_answered(self) -> None:
        """Close now if idle, otherwise once the received calls are answered."""
        if not self._is_serving:
            self._close_with_notice()
        else:
            self._update_reading()

    def _close_with_notice(self) -> None:
        """Send the stopping notice to a client that wants it, then close: its other calls were not carried out."""
        if self._peer_sent_eof or self._wants_stopping_notice is False or self._transport.is_closing():
            self._transport.close()
            return
        if self._wants_stopping_notice:
            self._has_sent_stopping = True
            self._transport.write(STOPPING_FRAME)
            self._update_reading()
        self._loop.call_later(_STOPPING_NOTICE_SECONDS, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if not self._is_serving:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Drop the connection at once, and log the reason."""
        log.info("connection from %s dropped: %s", self._transport.get_extra_info("peername"), reason)
        self._transport.abort()

    def _reject(self, reason: str) -> None:
        self._owner.metrics.frames_refused.add()
        self.abort(reason)

    async def _serve(self) -> None:
        """Answer frames, in order, until none is left."""
        try:
            turn_bytes = 0
            while self._frames:
                size = len(self._frames[0])
                call = self._next_call()
                answer = await (self._answer_large() if call is None else self._answer(call))
                del call
                self._pending_bytes -= size
                if self._is_budgeted:
                    self._update_budget()
                turn_bytes += max(size, _BYTES_PER_TURN // 16)
                if self._blocked is not None:
                    if not await self._blocked:
                        await answer.take_back()
                elif turn_bytes >= _BYTES_PER_TURN:
                    turn_bytes = 0
                    await asyncio.sleep(0)  # calls that never await would starve other connections
        except MalformedMessage as error:
            self._reject(str(error))
        except Exception:
            log.exception("serving a connection failed; it is closed")
            self._transport.abort()
        finally:
            self._is_serving = False
            self._active_at = self._loop.time()
            if self._owner.is_draining:
                self._close_with_notice()
            elif self._peer_sent_eof:
                self._transport.close()

    def _next_call(self) -> DecodedCall | None:
        """Decode the next call; return None if it is large or unusable, to be decoded in a thread."""
        frame = self._frames[0]
        if len(frame) >= LARGE_FRAME_BYTES:
            return None
        try:
            call = self._owner.codec.decode_call(frame, quick_only=True, head=self._enqueue_head)
        except (SlowToDecode, UnusableCall):
            return None
        self._frames.popleft()
        # A dequeue must not wait while it holds memory, nor for a client that may be gone.
        self._caller.cannot_wait = bool(self._frames) or len(frame) > UNBUDGETED_BYTES or self._peer_sent_eof
        if self._is_paused:
            self._update_reading()
        return call

    async def _answer_large(self) -> CallReply:
        """Answer a large call, decoded in a thread; it stays among the pending frames until a slot is free."""
        async with self._owner.large_call_slots:
            if self._caller.is_gone:
                return NO_REPLY
            frame = self._frames.popleft()
            self._caller.cannot_wait = True
            self._update_reading()
            try:
                call = await asyncio.to_thread(Codec().decode_call, frame)
            except UnusableCall as error:
                method, number = error.method, error.sequence_id
                self._send(self._owner.codec.encode_application_error(method, number, PROTOCOL_ERROR, str(error)))
                return NO_REPLY
            del frame  # decoding has copied its content
            return await self._answer(call)

    async def _answer(self, call: DecodedCall) -> CallReply:
        """Carry out a call and send its reply; return what to undo if the client does not read it completely."""
        codec, answer, (method, sequence_id, arguments) = self._owner.codec, NO_REPLY, call
        caller = self._caller
        if self._wants_stopping_notice is None:
            self._wants_stopping_notice = wants_stopping_notice(call)
            self._update_reading()
        try:
            assert self._peer is not None
            slots = self._peer.call_slots
            if not slots.take():
                await slots.wait()
            caller.has_slot = True
            try:
                answer = await self._owner.service.call(method, arguments, caller)
            finally:
                caller.leave_slot()
            if self._peer_sent_eof and answer.undo is not None and may_wait(call):
                await answer.take_back()
                answer = CallReply(dequeue_reply())
            reply = codec.encode_reply(method, sequence_id, answer.success)
        except ServiceError as error:
            reply = codec.encode_service_error(method, sequence_id, error)
        except CallRefused as refusal:
            reply = codec.encode_application_error(method, sequence_id, refusal.kind, str(refusal))
        except ProtocolError as error:
            log.exception("the reply to %s cannot be encoded", method)
            reply = codec.encode_service_error(method, sequence_id, UnknownError(str(error)))
            await answer.take_back()
            answer = NO_REPLY
        if self._send(reply, must_arrive=answer.undo is not None):
            return answer
        await answer.take_back()
        return NO_REPLY

    def _send(self, reply: bytes, *, must_arrive: bool = False) -> bool:
        """Send a reply; return False if the client has gone."""
        if self._caller.is_gone or self._transport.is_closing():
            return False
        if must_arrive and not self._flushes_every_write:
            self._flushes_every_write = True
            self._transport.set_write_buffer_limits(0)  # asyncio now pauses writing until everything is sent
        self._transport.write(reply)
        if self._blocked is not None:
            self._owner.answer_budget.record_unread(self, len(reply))
        return not self._transport.is_closing()  # writing to a client that has gone starts closing

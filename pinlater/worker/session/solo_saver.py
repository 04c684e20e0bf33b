"""Sends the calls of the job that runs in the main thread, and of threads that it has started."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

from pinlater_supervisor import Child

from pinlater.errors import CallError, CallUnsendable, CallUnsupported, ServerError, ServerUnavailable
from pinlater.model.messages import ReceivedMessage
from pinlater.protocol.idempotency import may_have_been_carried_out
from pinlater.protocol.operations import Call, Calls
from pinlater.worker.claim_table.counters import CountEvent, ignore_event
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.held_alarms import held_alarms
from pinlater.worker.session.pending_call import uncancellable
from pinlater.worker.session.pipeline import Pipeline
from pinlater.worker.session.saver import Encode
from pinlater.worker.session.server_saver import ServerSaver

_QUICK_SAVE_SECONDS = 0.5
"""How long a job waits for the reply to an optional save when a server hangs."""
_PAUSE_FACTOR = 10
"""After a failed connection attempt, no job waits for another one for this many times its duration."""


_Place = tuple[DequeuedBatch, int]
"""A job: its batch and its position there."""


class SoloSaver(ServerSaver):
    """Makes one call at a time; a job may have threads, but there is one connection.

    Args:
        pipeline, calls, child, count: as for ``ServerSaver``.

    Attributes:
        is_saving: whether a call is under way.
        is_open: whether a job is running; calls of threads that it leaves behind are rejected.
    """

    is_open = True

    def __init__(self, pipeline: Pipeline, calls: Calls, child: Child, count: CountEvent = ignore_event) -> None:
        super().__init__(pipeline, calls, child, count)
        self._call_lock = threading.Lock()
        self._quick_save: tuple[_Place, Future[Any]] | None = None  # its reply may be late
        self._not_before = 0.0

    def save(self, batch: DequeuedBatch, position: int, encode: Encode) -> bool:
        """Replace a job's body; see ``Saver.save``."""
        build = partial(self._checkpoint, batch, position, encode)
        return self._settle(batch, position, partial(self._call_until_deadline, build))

    def save_briefly(self, batch: DequeuedBatch, position: int, encode: Encode) -> bool:
        """Replace a job's body; a reply that is late is handled by the next save, and none is sent before it came."""
        build = partial(self._checkpoint, batch, position, encode)
        with self._call_lock, self._calling():
            return self._settle_previous((batch, position)) and self._save_quickly((batch, position), build)

    def ask_messages(
        self, descriptor: str, name: str, after: int, limit: int
    ) -> Callable[[], Sequence[ReceivedMessage]]:
        """Request messages before they are needed; see ``Saver.ask_messages``."""
        call, replies = self._calls.read_messages(descriptor, name, after=after, limit=limit), list[Any]()
        with self._call_lock, self._calling():
            self._pipeline.send(call, replies.append)

        def wait() -> Sequence[ReceivedMessage]:
            with self._call_lock, self._calling():
                while not replies:
                    self._pipeline.receive()
            return () if isinstance(replies[0], Exception) else call.convert(replies[0])

        return wait

    def close(self) -> None:
        """Reject calls from now on; wait for one in progress."""
        self.is_open = False
        with self._call_lock:
            pass

    @contextmanager
    def _calling(self) -> Iterator[None]:
        with held_alarms():
            self.is_saving = True
            try:
                # Checked after is_saving is set: the main thread first clears is_open, then checks is_saving.
                if not self.is_open:
                    raise RuntimeError("the job has ended; a thread that it left behind can save nothing more")
                yield
            finally:
                self.is_saving = False

    def _call_until_deadline(self, build: Callable[[], Call[Any]]) -> Any:
        deadline = time.monotonic() + self.patience_seconds
        with self._call_lock:
            return self._retry_until(deadline, build())

    def _retry_until(self, deadline: float, call: Call[Any]) -> Any:
        with self._calling():
            while True:
                try:
                    self._pipeline.open()
                    reply = self._pipeline.call(call)
                except (CallUnsendable, CallUnsupported):
                    raise
                except (CallError, ServerError):
                    if time.monotonic() >= deadline or self._child.stopping_now or not self.is_open:
                        self._record_failure(call)
                        raise
                    may_have_been_carried_out(call.arguments)
                else:
                    self._record_success(call)
                    return reply
                time.sleep(self._pipeline.delay_seconds)

    # Saves without patience

    def _settle_previous(self, place: _Place) -> bool:
        """Handle the reply to the previous quick save; return whether another one can be sent.

        An error of another job's save is dropped: that job has ended.
        """
        if self._quick_save is None:
            return time.monotonic() >= self._not_before
        former, reply = self._quick_save
        self._await_reply(reply, 0.0)
        if not reply.done():
            return False
        self._quick_save = None
        if former == place:
            self._settle(*place, reply.result)
        return True

    def _save_quickly(self, place: _Place, build: Callable[[], Call[None]]) -> bool:
        call, began, reply = build(), time.monotonic(), uncancellable()
        self._quick_save = place, reply
        try:
            self._pipeline.open()
        except ServerUnavailable as error:
            ended = time.monotonic()
            self._not_before = ended + _PAUSE_FACTOR * (ended - began)
            self._resolve(reply, call, error)
        else:
            self._pipeline.send(call, partial(self._resolve, reply, call))
            self._await_reply(reply, _QUICK_SAVE_SECONDS)
        if not reply.done():
            return False
        self._quick_save = None
        return self._settle(*place, reply.result)

    def _await_reply(self, reply: Future[Any], seconds: float) -> None:
        """Receive replies until this one has come, for ``seconds`` at most."""
        until = time.monotonic() + seconds
        while not reply.done() and self._pipeline.wait(max(until - time.monotonic(), 0.0)):
            self._pipeline.receive()

"""Sends the calls of jobs that run in other threads, through the main thread, which owns the connection."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from os import getpid
from threading import Lock
from typing import Any, NamedTuple

from pinlater_supervisor import Child

from pinlater.client.servers import STORE_OUT_OF_REACH
from pinlater.errors import CallError, ServerUnavailable, ServiceError
from pinlater.model.messages import ReceivedMessage
from pinlater.protocol.idempotency import may_have_been_carried_out
from pinlater.protocol.operations import Call, Calls
from pinlater.worker.claim_table.counters import CountEvent, ignore_event
from pinlater.worker.pipe_event import PipeEvent
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.job_saves import JobSaves
from pinlater.worker.session.pending_call import PendingCall, uncancellable
from pinlater.worker.session.pipeline import Pipeline
from pinlater.worker.session.saver import Encode, fulfilled, is_transient
from pinlater.worker.session.server_saver import ServerSaver


class _QueuedCall(NamedTuple):
    """A queued call; for a save, with the other saves of its job."""

    pending: PendingCall
    saves: JobSaves | None


class SharedSaver(ServerSaver):
    """Takes calls from jobs in any thread; the main thread sends them in order.

    Args:
        pipeline, calls, child: as for ``ServerSaver``.
        waker: wakes the main thread.
        is_on_loop: whether all jobs run in one thread, so that all wait while one does.
        count: as for ``ServerSaver``; called in the main thread.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        calls: Calls,
        child: Child,
        waker: PipeEvent,
        *,
        is_on_loop: bool,
        count: CountEvent = ignore_event,
    ) -> None:
        super().__init__(pipeline, calls, child, count)
        self._waker = waker
        self._is_on_loop = is_on_loop
        self._pid = getpid()
        self._lock = Lock()
        self._queued: deque[_QueuedCall] = deque()
        self._retries: list[_QueuedCall] = []

    # The jobs' side

    def save(self, batch: DequeuedBatch, position: int, encode: Encode) -> bool:
        """Replace a job's body; see ``Saver.save``.

        On an event loop, nothing waits during a drain: the interruption that follows carries the body once more.
        """
        if self._is_on_loop and self.is_draining:
            return self.save_briefly(batch, position, encode)
        patience, blocks_others = self.patience_seconds, self._is_on_loop
        pending = self._queue_save(batch, position, encode, patience, blocks_others=blocks_others)
        return self._settle(batch, position, pending.reply.result)

    def save_briefly(self, batch: DequeuedBatch, position: int, encode: Encode) -> bool:
        """Queue a save, and return at once; an error is raised by a later save of the job."""
        saves = self._saves_of(batch)
        latest = self._queue_save(batch, position, encode, 0.0)
        before = saves.unchecked
        if before is None or before[0] is not latest:
            saves.unchecked = latest, self._saved_by(latest, batch, position)
            if before is not None and before[1].done():
                before[1].result()
        return True

    def submit(self, batch: DequeuedBatch, position: int, encode: Encode) -> Future[bool]:
        """Save like ``save``, without waiting."""
        return self._saved_by(self._queue_save(batch, position, encode, self.patience_seconds), batch, position)

    def ask_messages(
        self, descriptor: str, name: str, after: int, limit: int
    ) -> Callable[[], Sequence[ReceivedMessage]]:
        """Ask for messages before they are needed; see ``Saver.ask_messages``."""
        pending = PendingCall(self._calls.read_messages(descriptor, name, after=after, limit=limit), 0.0)
        self._enqueue_call(_QueuedCall(pending, None))

        def wait() -> Sequence[ReceivedMessage]:
            try:
                return pending.call.convert(pending.reply.result())  # type: ignore[no-any-return]
            except (CallError, ServiceError):
                return ()

        return wait

    def _call_until_deadline(self, build: Callable[[], Call[Any]]) -> Any:
        pending = PendingCall(build(), self.patience_seconds, blocks_others=self._is_on_loop)
        self._enqueue_call(_QueuedCall(pending, None))
        return pending.call.convert(pending.reply.result())

    def _queue_save(
        self,
        batch: DequeuedBatch,
        position: int,
        encode: Encode,
        patience_seconds: float,
        *,
        blocks_others: bool = False,
    ) -> PendingCall:
        if not batch.is_running(position):
            raise RuntimeError("the job has ended; a thread that it left behind can save nothing more")

        def new() -> PendingCall:
            call = self._checkpoint(batch, position, encode)
            return PendingCall(call, patience_seconds, blocks_others=blocks_others)

        saves = self._saves_of(batch)
        pending, is_due = saves.put(new)
        if is_due:
            self._enqueue_call(_QueuedCall(pending, saves))
        return pending

    def _saves_of(self, batch: DequeuedBatch) -> JobSaves:
        if getpid() != self._pid:  # in a fork of a job, a lock of the parent's may be held for ever
            return JobSaves()
        with self._lock:
            if batch.saves is None:
                batch.saves = JobSaves()
            return batch.saves

    def _saved_by(self, pending: PendingCall, batch: DequeuedBatch, position: int) -> Future[bool]:
        saved: Future[bool] = uncancellable()

        def on_reply(reply: Future[Any]) -> None:
            fulfilled(saved, partial(self._settle, batch, position, reply.result))

        pending.reply.add_done_callback(on_reply)
        return saved

    def _enqueue_call(self, queued: _QueuedCall) -> None:
        if getpid() != self._pid:
            queued.pending.reply.set_exception(ServerUnavailable("a process that a job forks has no worker beside it"))
            return
        self._queued.append(queued)
        self._waker.set()

    # The main thread's side

    def send_queued(self) -> None:
        """Send the queued calls, and retries that are due."""
        now = time.monotonic()
        due = [queued for queued in self._retries if queued.pending.retry_at <= now]
        if due:
            self._retries = [queued for queued in self._retries if queued.pending.retry_at > now]
        for queued in due:
            self._call(*queued)
        while self._queued:
            self._call(*self._queued.popleft())

    def end(self, batch: DequeuedBatch) -> None:
        """Record that a job has ended; send its last save before its ack."""
        if batch.saves is not None and (rest := batch.saves.end()) is not None:
            self._call(rest, batch.saves)

    @property
    def retry_in_seconds(self) -> float | None:
        """Seconds until the next retry; None if there is none."""
        if not self._retries:
            return None
        return max(min(queued.pending.retry_at for queued in self._retries) - time.monotonic(), 0.0)

    def _call(self, pending: PendingCall, saves: JobSaves | None) -> None:
        if saves is None or saves.send(pending):
            self._pipeline.send(pending.call, partial(self._answered, pending, saves))

    def _answered(self, pending: PendingCall, saves: JobSaves | None, reply: Any) -> None:
        if self._should_retry(pending, reply):
            later = pending if saves is None else saves.failed(pending)
            if later is not None:
                may_have_been_carried_out(later.call.arguments)
                later.retry_at = time.monotonic() + self._pipeline.delay_seconds
                self._retries.append(_QueuedCall(later, saves))
                return
        self._resolve(pending.reply, pending.call, reply)
        if saves is not None and (newer := saves.answered()) is not None:
            self._call(newer, saves)

    def _should_retry(self, pending: PendingCall, reply: Any) -> bool:
        if pending.blocks_others and isinstance(reply, STORE_OUT_OF_REACH):
            return False  # the shards of other jobs of the event loop may answer
        is_in_time = time.monotonic() < pending.deadline and not self._child.stopping_now
        return isinstance(reply, Exception) and is_transient(reply) and is_in_time

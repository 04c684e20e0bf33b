"""Calls to the server for jobs that run beside the main thread, which alone talks to it."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future
from functools import partial
from os import getpid
from threading import Lock
from typing import Any

from pinlater_supervisor import Child

from pinlater.errors import CallError, CallUnsendable, ServerError, ServerUnavailable
from pinlater.wire.messages import RequestContext
from pinlater.worker.board.holding import RUNNING
from pinlater.worker.board.tally import SAVED, UNSAVED, CountEvent, count_nothing
from pinlater.worker.exchange.batch import Batch
from pinlater.worker.exchange.connector import Connector
from pinlater.worker.exchange.pipeline import Pipeline
from pinlater.worker.exchange.saver import Saver, fulfilled
from pinlater.worker.processes.bell import Bell


class Errand:
    """One call that a job wants to be made.

    Attributes:
        method, arguments: of the call.
        deadline: until when it is tried; monotonic seconds.
        retry_at: when it is tried next.
        is_under_way: whether it was sent, so that other arguments come too late.
        reply: what comes of it, as it came; nobody can cancel it.
    """

    __slots__ = ("arguments", "deadline", "is_under_way", "method", "reply", "retry_at")

    def __init__(self, method: str, arguments: Any, patience_seconds: float) -> None:
        self.method = method
        self.arguments = arguments
        self.deadline = time.monotonic() + patience_seconds
        self.retry_at = 0.0
        self.is_under_way = False
        self.reply: Future[Any] = _uncancellable()


class SharedSaver(Saver):
    """Jobs hand their calls over, in any thread; the main thread makes them, in order.

    Args:
        pipeline, connector, context, child: as of ``Saver``.
        bell: wakes the main thread.
        is_on_loop: whether all jobs run in one thread, so that all wait while one does.
        count: as of ``Saver``; called in the main thread.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        connector: Connector,
        context: RequestContext,
        child: Child,
        bell: Bell,
        *,
        is_on_loop: bool,
        count: CountEvent = count_nothing,
    ) -> None:
        super().__init__(pipeline, connector, context, child, count)
        self._bell = bell
        self._is_on_loop = is_on_loop
        self._pid = getpid()
        self._lock = Lock()
        self._errands: deque[Errand] = deque()
        self._again: list[Errand] = []
        self._soon: dict[Batch, tuple[Errand, Future[bool]]] = {}

    # The jobs' side

    def save(self, batch: Batch, position: int, body: bytes, patience_seconds: float) -> bool:
        """Replace a job's body. Without patience, return at once: what comes of it is told to the job's next save.

        On an event loop, a drain takes the patience away: the interruption that follows carries the body once more.
        """
        _check_running(batch, position)
        if patience_seconds > 0 and not (self._is_on_loop and self.is_draining):
            return super().save(batch, position, body, patience_seconds)
        self._save_soon(batch, self._arguments(batch, position, body))
        return True

    def submit(self, batch: Batch, position: int, body: bytes, patience_seconds: float) -> Future[bool]:
        """Do as ``save``, without waiting for the end."""
        _check_running(batch, position)
        errand = Errand("checkpointJobs", self._arguments(batch, position, body), patience_seconds)
        saved = self._saved_by(errand)
        self._hand_over(errand)
        return saved

    def _insist(self, method: str, arguments: object, patience_seconds: float) -> Any:
        errand = Errand(method, arguments, patience_seconds)
        self._hand_over(errand)
        return errand.reply.result()

    def _save_soon(self, batch: Batch, arguments: object) -> None:
        with self._lock:
            errand, saved = self._soon.get(batch, (None, None))
            if errand is not None and not errand.is_under_way:
                errand.arguments = arguments
                return
            latest = Errand("checkpointJobs", arguments, 0.0)
            self._soon[batch] = latest, self._saved_by(latest)
        self._hand_over(latest)
        if saved is not None and saved.done():
            saved.result()

    def _saved_by(self, errand: Errand) -> Future[bool]:
        saved: Future[bool] = _uncancellable()

        def on_reply(reply: Future[Any]) -> None:
            fulfilled(saved, partial(self._is_saved, reply.result))

        errand.reply.add_done_callback(on_reply)
        return saved

    def _hand_over(self, errand: Errand) -> None:
        if getpid() != self._pid:
            errand.reply.set_exception(ServerUnavailable("a process that a job forks has no worker beside it"))
            return
        self._errands.append(errand)
        self._bell.ring()

    # The main thread's side

    def serve(self) -> None:
        """Make the calls that are wanted."""
        now = time.monotonic()
        due = [errand for errand in self._again if errand.retry_at <= now]
        if due:
            self._again = [errand for errand in self._again if errand.retry_at > now]
        for errand in due:
            self._call(errand)
        while self._errands:
            self._call(self._errands.popleft())

    def forget(self, batch: Batch) -> None:
        """Note that a job has ended."""
        self._soon.pop(batch, None)

    @property
    def held_seconds(self) -> float | None:
        """How long to wait before a call is made again; None if none is."""
        if not self._again:
            return None
        return max(min(errand.retry_at for errand in self._again) - time.monotonic(), 0.0)

    def _call(self, errand: Errand) -> None:
        with self._lock:
            errand.is_under_way = True
        self._pipeline.send(errand.method, errand.arguments, partial(self._answered, errand))

    def _answered(self, errand: Errand, reply: Any) -> None:
        if not isinstance(reply, Exception):
            self._note(SAVED, errand.method, errand.arguments)
            errand.reply.set_result(reply)
        elif self._may_help_again(reply) and time.monotonic() < errand.deadline and not self._child.stopping_now:
            errand.retry_at = time.monotonic() + self._connector.delay_seconds
            self._again.append(errand)
        else:
            if self._may_help_again(reply):
                self._note(UNSAVED, errand.method, errand.arguments)
            errand.reply.set_exception(reply)

    @staticmethod
    def _may_help_again(error: Exception) -> bool:
        return isinstance(error, CallError | ServerError) and not isinstance(error, CallUnsendable)


def _check_running(batch: Batch, position: int) -> None:
    if batch.area.states[position] != RUNNING:
        raise RuntimeError("the job has ended; a thread that it left behind can save nothing more")


def _uncancellable() -> Future[Any]:
    """Return a future that a cancelled ``await`` leaves alone."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future

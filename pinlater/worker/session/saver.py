"""Sends the calls of a running job: checkpoints, finished steps and follow-up jobs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

from pinlater_supervisor import Child

from pinlater.errors import (
    BodyTooLarge,
    CallError,
    CallUnsendable,
    CallUnsupported,
    EnqueueRejected,
    ServerError,
    ServerUnavailable,
    StaleClaims,
)
from pinlater.jobs.follow_ups import KEPT_MS
from pinlater.model.attempts import Checkpoint
from pinlater.model.messages import Message, ReceivedMessage
from pinlater.protocol.idempotency import may_have_been_carried_out
from pinlater.protocol.internal_calls import with_stale_claims
from pinlater.protocol.messages import PinLaterJob
from pinlater.protocol.operations import Call, Calls
from pinlater.worker.claim_table.counters import SAVED, UNSAVED, CountEvent, ignore_event
from pinlater.worker.session.batch import DequeuedBatch, queue_of
from pinlater.worker.session.connector import Connector
from pinlater.worker.session.held_alarms import held_alarms
from pinlater.worker.session.pipeline import Pipeline

_T = TypeVar("_T")


class Snapshot(NamedTuple):
    """What a save stores for a job.

    Attributes:
        body: its current body; None: the server keeps the one that it has.
        keeps: messages to store for the job's later attempts.
    """

    body: bytes | None
    keeps: Sequence[Message] = ()


Encode = Callable[[], Snapshot]
"""Returns what to store for a job."""

_QUICK_SAVE_SECONDS = 0.5
"""How long a job waits for the reply to an optional save when a server hangs."""
_UNSUPPORTED_SECONDS = 300.0
"""How long no server is asked to store messages after one could not."""
_MOST_STORED = 1000
"""Most stored messages that are remembered until somebody asks for them."""
_PAUSE_FACTOR = 10
"""After a failed connection attempt, no job waits for another one for this many times its duration."""

_CHECKPOINTS = (Calls.checkpoint.method, Calls.checkpoint_and_keep.method)
_NOT_STORED = object()

log = logging.getLogger(__name__)


class FollowUps(NamedTuple):
    """Jobs that a running job enqueues, all or none.

    Attributes:
        queue: their queue.
        jobs: the jobs, as they are sent.
        key: idempotency key of the call.
        may_be_there: an earlier attempt may have enqueued them, on any shard.
    """

    queue: str
    jobs: list[PinLaterJob]
    key: bytes
    may_be_there: bool


class _QuickSave:
    """A save that its job does not wait for.

    Attributes:
        place: the job: its batch and its position there.
        is_answered: whether there is a reply or an error.
        reply: the reply, or the error that came instead.
    """

    __slots__ = ("is_answered", "place", "reply")

    def __init__(self, place: tuple[DequeuedBatch, int]) -> None:
        self.place = place
        self.is_answered = False
        self.reply: Any = None

    def result(self) -> None:
        """Raise the error, if there is one."""
        if isinstance(self.reply, Exception):
            raise self.reply


class Saver:
    """Sends checkpoints and follow-ups, and retries for some time if no server is reachable.

    Args:
        pipeline: sends the calls.
        connector: says how long to wait before a retry.
        calls: builds the calls.
        child: this process; once it is to stop at once, nothing is retried.
        count: called for checkpoints that a server saved, and for those that none saved.

    Attributes:
        is_saving: whether a call is under way.
        is_open: whether a job is running; calls of threads that it leaves behind are rejected.
    """

    is_saving = False
    is_open = True

    def __init__(
        self,
        pipeline: Pipeline,
        connector: Connector,
        calls: Calls,
        child: Child,
        count: CountEvent = ignore_event,
    ) -> None:
        self._pipeline = pipeline
        self._connector = connector
        self._calls = calls
        self._child = child
        self._count = count
        self._call_lock = threading.Lock()
        self._quick_save: _QuickSave | None = None
        self._not_before = 0.0
        self._keeps_from = 0.0
        self._stored: dict[str, None] = {}

    @property
    def keeps_messages(self) -> bool:
        """Whether servers can store messages with a save, as far as known; those of older versions cannot."""
        return time.monotonic() >= self._keeps_from

    def is_stored(self, message_id: str) -> bool:
        """Tell whether a message is known to be stored with a save; says so only once for each."""
        return self._stored.pop(message_id, _NOT_STORED) is None

    @property
    def is_draining(self) -> bool:
        """Whether jobs should stop at their next checkpoint."""
        return self._child.draining

    def save(self, batch: DequeuedBatch, position: int, encode: Encode, patience_seconds: float) -> bool:
        """Replace a job's body; return False if no server took it within ``patience_seconds``.

        Args:
            batch: the job's batch.
            position: its position there.
            encode: called when it is this save's turn, so that saves of several threads are sent in the order in which
                they are encoded.
            patience_seconds: how long to try. 0: try once, and wait for the reply only briefly; a later reply is
                handled by the next save, and none is sent before it has come.

        Raises:
            BodyInvalid: ``encode`` raised it.
            BodyTooLarge: the server does not take a body of this size.
        """
        build = partial(self._checkpoint, batch, position, encode)
        if not patience_seconds:
            with self._call_lock, self._calling():
                return self._is_quick_save_done((batch, position)) and self._save_quickly((batch, position), build)
        return self._is_saved(batch, position, partial(self._call_until_deadline, build, patience_seconds))

    def submit(self, batch: DequeuedBatch, position: int, encode: Encode, patience_seconds: float) -> Future[bool]:
        """Save like ``save``; return a future, for callers that can wait without blocking others."""
        return fulfilled(Future(), partial(self.save, batch, position, encode, patience_seconds))

    def _is_saved(self, batch: DequeuedBatch, position: int, call: Callable[[], object]) -> bool:
        try:
            call()
        except StaleClaims as error:
            if batch.descriptors[position] in error.cancelled:
                batch.mark_cancelled(position)
            else:
                batch.mark_lost(position)
        except (EnqueueRejected, CallUnsendable) as error:
            raise BodyTooLarge(str(error)) from error
        except CallUnsupported:
            self._keeps_from = time.monotonic() + _UNSUPPORTED_SECONDS
            return False
        except (CallError, ServerError) as error:
            log.warning("cannot save a checkpoint: %s", error)
            return False
        return True

    def enqueue(self, follow_ups: FollowUps, patience_seconds: float) -> list[str]:
        """Enqueue follow-ups, once however often the call is sent; return their descriptors.

        Raises:
            ClientError: the server refused them.
            CallError, ServerError: no server took them within ``patience_seconds``, as far as is known.
        """
        queue, jobs, key, may_be_there = follow_ups
        call = self._calls.enqueue_once(queue, jobs, key, is_repeat=may_be_there, keep_result_ms=KEPT_MS)
        descriptors: list[str] = self._call_until_deadline(lambda: call, patience_seconds)
        return descriptors

    def read_messages(
        self, descriptor: str, name: str, after: int, limit: int, patience_seconds: float
    ) -> list[ReceivedMessage]:
        """Return messages of a job; see ``Calls.read_messages``.

        Raises:
            CallError, ServiceError: no server has answered within ``patience_seconds``.
        """
        call = self._calls.read_messages(descriptor, name, after=after, limit=limit)
        found: list[ReceivedMessage] = self._call_until_deadline(lambda: call, patience_seconds)
        return found

    def ask_messages(
        self, descriptor: str, name: str, after: int, limit: int
    ) -> Callable[[], Sequence[ReceivedMessage]]:
        """Request messages before they are needed; return a function that waits for them, and returns none on error."""
        call, replies = self._calls.read_messages(descriptor, name, after=after, limit=limit), list[Any]()
        with self._call_lock, self._calling():
            self._pipeline.send(call, replies.append)

        def wait() -> Sequence[ReceivedMessage]:
            with self._call_lock, self._calling():
                while not replies:
                    self._pipeline.receive()
            return () if isinstance(replies[0], Exception) else call.convert(replies[0])

        return wait

    def _call_until_deadline(self, build: Callable[[], Call[Any]], patience_seconds: float) -> Any:
        """Make a call, and retry it until the deadline; return its converted reply, or raise the last error."""
        deadline = time.monotonic() + patience_seconds
        with self._call_lock:  # a job may have threads, but there is one connection
            return self._retry_until(deadline, build())

    def _is_quick_save_done(self, place: tuple[DequeuedBatch, int]) -> bool:
        """Tell whether the previous quick save is answered, so that another one can be sent. Raise its error."""
        quick_save = self._quick_save
        if quick_save is None:
            return time.monotonic() >= self._not_before
        self._await_reply(quick_save, 0.0)
        if not quick_save.is_answered:
            return False
        self._quick_save = None
        if quick_save.place == place:
            self._is_saved(*quick_save.place, quick_save.result)
        return True

    def _save_quickly(self, place: tuple[DequeuedBatch, int], build: Callable[[], Call[None]]) -> bool:
        call, began = build(), time.monotonic()
        self._quick_save = quick_save = _QuickSave(place)
        try:
            self._pipeline.open()
        except ServerUnavailable as error:
            ended = time.monotonic()
            self._not_before = ended + _PAUSE_FACTOR * (ended - began)
            self._on_reply(quick_save, call, error)
        else:
            self._pipeline.send(call, partial(self._on_reply, quick_save, call))
            self._await_reply(quick_save, _QUICK_SAVE_SECONDS)
        if not quick_save.is_answered:
            return False
        self._quick_save = None
        return self._is_saved(*quick_save.place, quick_save.result)

    def _await_reply(self, quick_save: _QuickSave, seconds: float) -> None:
        """Receive replies until the quick save is answered, for ``seconds`` at most."""
        until = time.monotonic() + seconds
        while not quick_save.is_answered and self._pipeline.wait(max(until - time.monotonic(), 0.0)):
            self._pipeline.receive()

    def _on_reply(self, quick_save: _QuickSave, call: Call[None], reply: Any) -> None:
        quick_save.is_answered, quick_save.reply = True, reply
        if not isinstance(reply, Exception):
            self._count_checkpoint(SAVED, call)
        elif is_transient(reply):
            self._count_checkpoint(UNSAVED, call)

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
                        self._count_checkpoint(UNSAVED, call)
                        raise
                    may_have_been_carried_out(call.arguments)
                else:
                    self._count_checkpoint(SAVED, call)
                    return reply
                time.sleep(self._connector.delay_seconds)

    def _count_checkpoint(self, event: str, call: Call[Any]) -> None:
        if call.method in _CHECKPOINTS:
            self._count(call.arguments.request.queueName, event, 1)
        if event == SAVED and call.method == Calls.checkpoint_and_keep.method:
            ids = [kept.id for request in call.arguments.request.requests for kept in request.keeps or ()]
            self._stored.update(dict.fromkeys(ids))
            while len(self._stored) > _MOST_STORED:
                del self._stored[next(iter(self._stored))]

    def close(self) -> None:
        """Reject calls from now on; wait for one in progress."""
        self.is_open = False
        with self._call_lock:
            pass

    def _checkpoint(self, batch: DequeuedBatch, position: int, encode: Encode) -> Call[None]:
        descriptor = batch.descriptors[position]
        body, keeps = encode()
        attempts = batch.new_attempts.get(position)
        checkpoint = Checkpoint(descriptor, batch.claim or None, body, attempts=attempts, keeps=keeps)
        build = self._calls.checkpoint_and_keep if keeps else self._calls.checkpoint
        return with_stale_claims(build(queue_of(descriptor), [checkpoint]))


def is_transient(error: Exception) -> bool:
    """Tell whether the same call may succeed later."""
    return isinstance(error, CallError | ServerError) and not isinstance(error, CallUnsendable | CallUnsupported)


def fulfilled(future: Future[_T], function: Callable[[], _T]) -> Future[_T]:
    """Set a future to what ``function`` returns or raises."""
    try:
        future.set_result(function())
    except Exception as error:  # noqa: BLE001 - it is raised where the result is asked for
        future.set_exception(error)
    return future

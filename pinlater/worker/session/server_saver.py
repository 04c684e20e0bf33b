"""Builds the calls of running jobs, and keeps account of what the servers took."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from pinlater_supervisor import Child

from pinlater.errors import CallUnsupported
from pinlater.jobs.follow_ups import KEPT_MS
from pinlater.model.attempts import Checkpoint
from pinlater.model.descriptor import queue_of
from pinlater.model.messages import ReceivedMessage
from pinlater.protocol.internal_calls import with_stale_claims
from pinlater.protocol.operations import Call, Calls
from pinlater.worker.claim_table.counters import SAVED, UNSAVED, CountEvent, ignore_event
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.pipeline import Pipeline
from pinlater.worker.session.saver import Encode, FollowUps, Saver, is_transient, settle_save

_UNSUPPORTED_SECONDS = 300.0
"""How long no server is asked to store messages after one could not."""
_MOST_STORED = 1000
"""Most stored messages that are remembered until somebody asks for them."""

_CHECKPOINTS = (Calls.checkpoint.method, Calls.checkpoint_and_keep.method)
_NOT_STORED = object()


class ServerSaver(Saver):
    """Sends checkpoints and follow-ups, and retries for some time if no server is reachable.

    Args:
        pipeline: sends the calls.
        calls: builds the calls.
        child: this process; once it is to stop at once, nothing is retried.
        count: called for checkpoints that a server saved, and for those that none saved.
    """

    def __init__(self, pipeline: Pipeline, calls: Calls, child: Child, count: CountEvent = ignore_event) -> None:
        self.patience_seconds = pipeline.lease_seconds
        self._pipeline = pipeline
        self._calls = calls
        self._child = child
        self._count = count
        self._keeps_from = 0.0
        self._stored: dict[str, None] = {}

    @property
    def is_draining(self) -> bool:
        """Whether jobs should stop at their next checkpoint."""
        return self._child.draining

    @property
    def keeps_messages(self) -> bool:
        """Whether servers can store messages with a save, as far as known; those of older versions cannot."""
        return time.monotonic() >= self._keeps_from

    def is_stored(self, message_id: str) -> bool:
        """Tell whether a message is known to be stored with a save; says so only once for each."""
        return self._stored.pop(message_id, _NOT_STORED) is None

    def enqueue(self, follow_ups: FollowUps) -> list[str]:
        """Enqueue follow-ups; see ``Saver.enqueue``."""
        queue, jobs, key, may_be_there = follow_ups
        call = self._calls.enqueue_once(queue, jobs, key, is_repeat=may_be_there, keep_result_ms=KEPT_MS)
        descriptors: list[str] = self._call_until_deadline(lambda: call)
        return descriptors

    def read_messages(self, descriptor: str, name: str, after: int, limit: int) -> list[ReceivedMessage]:
        """Return messages of a job; see ``Saver.read_messages``."""
        call = self._calls.read_messages(descriptor, name, after=after, limit=limit)
        found: list[ReceivedMessage] = self._call_until_deadline(lambda: call)
        return found

    @abstractmethod
    def _call_until_deadline(self, build: Callable[[], Call[Any]]) -> Any:
        """Make a call, and retry it until patience ends; return its converted reply, or raise the last error."""

    def _checkpoint(self, batch: DequeuedBatch, position: int, encode: Encode) -> Call[None]:
        descriptor = batch.descriptors[position]
        body, keeps = encode()
        attempts = batch.new_attempts.get(position)
        checkpoint = Checkpoint(descriptor, batch.claim or None, body, attempts=attempts, keeps=keeps)
        build = self._calls.checkpoint_and_keep if keeps else self._calls.checkpoint
        return with_stale_claims(build(queue_of(descriptor), [checkpoint]))

    def _settle(self, batch: DequeuedBatch, position: int, call: Callable[[], object]) -> bool:
        """Make the call of a save, or get its reply; see ``settle_save``."""
        try:
            return settle_save(batch, position, call)
        except CallUnsupported:
            self._keeps_from = time.monotonic() + _UNSUPPORTED_SECONDS
            return False

    def _resolve(self, future: Future[Any], call: Call[Any], reply: Any) -> None:
        """Set a future to the reply to a call, or to the error that came instead."""
        if not isinstance(reply, Exception):
            self._record_success(call)
            future.set_result(reply)
            return
        if is_transient(reply):
            self._record_failure(call)
        future.set_exception(reply)

    def _record_success(self, call: Call[Any]) -> None:
        """Count a checkpoint that a server saved, and remember the messages that it stored."""
        if call.method in _CHECKPOINTS:
            self._count(call.arguments.request.queueName, SAVED, 1)
        if call.method == Calls.checkpoint_and_keep.method:
            ids = [kept.id for request in call.arguments.request.requests for kept in request.keeps or ()]
            self._stored.update(dict.fromkeys(ids))
            while len(self._stored) > _MOST_STORED:
                del self._stored[next(iter(self._stored))]

    def _record_failure(self, call: Call[Any]) -> None:
        """Count a checkpoint that no server saved."""
        if call.method in _CHECKPOINTS:
            self._count(call.arguments.request.queueName, UNSAVED, 1)

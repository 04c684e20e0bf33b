"""Runs attempts of jobs with the worker's runner, in the calling thread and without a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from inspect import iscoroutinefunction
from time import monotonic_ns, time
from typing import Any, Protocol, Self, TypeVar

from pinlater.errors import Discard, JobInterrupted, interruption_in
from pinlater.jobs.body_codec import JobCodec
from pinlater.jobs.job import Job
from pinlater.jobs.middleware import Middleware
from pinlater.jobs.result_codec import decode_result
from pinlater.model.attempts import ClaimedJob
from pinlater.model.messages import MessageWait, ReceivedMessage
from pinlater.protocol.conversion.jobs import claimed_reply
from pinlater.protocol.messages import PinLaterJob
from pinlater.worker.claim_table.row import ClaimRow
from pinlater.worker.claim_table.snapshot import SOLO_LAYOUT
from pinlater.worker.running.run_context import RunContext
from pinlater.worker.running.runner import Runner
from pinlater.worker.running.undoing import Undoing
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.outcome import Failure, Interruption, LostClaim, Result
from pinlater.worker.session.outcome import Outcome as RunnersOutcome
from pinlater.worker.session.saver import Encode, FollowUps, Saver, settle_save

T = TypeVar("T")

MOST_RUNS = 1000
"""Maximum number of attempts in a test; more count as an endless loop."""

_OF_A_JOB = (Exception, JobInterrupted, SystemExit, asyncio.CancelledError)
"""Exceptions of a job. Others, such as Ctrl-C and ``pytest.fail``, are meant for the test and pass through."""


class ServerCalls(Protocol):
    """What running jobs need from a server."""

    def save(self, claimed: ClaimedJob, body: bytes, attempts: int | None) -> object:
        """Save the body of a running job and, unless None, the attempts allowed and remaining from now on.

        Raises:
            StaleClaims: the job is no longer held, or is asked to stop.
        """

    def is_cancelled(self, claimed: ClaimedJob) -> bool:
        """Return whether a running job was cancelled."""

    def enqueue_once(self, queue: str, jobs: list[PinLaterJob], key: bytes) -> list[str]:
        """Enqueue jobs, once for each key; return their descriptors."""

    def read_messages(self, descriptor: str, name: str, *, after: int, limit: int) -> list[ReceivedMessage]:
        """Return messages of a job."""


class Ending(StrEnum):
    """How an attempt ended; ``LOST``: its claim was lost, because the job was deleted or its lease had expired."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DISCARDED = "discarded"
    INTERRUPTED = "interrupted"
    RESCHEDULED = "rescheduled"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One attempt of one job.

    Attributes:
        job: the job with its fields as the attempt left them; None if its body could not be read.
        descriptor: its address, the same in all its attempts.
        attempt: number of the attempt, 1 for the first.
        attempts_allowed: total number of attempts.
        ending: how it ended; can be compared with a text: ``outcome.ending == "failed"``.
        error: what the job raised, or what decoding its body raised; None: nothing.
        status: what a worker would add to the job's custom status.
        retry_delay: seconds until the next attempt.
        body: the body from which an interrupted job continues, or with which a rescheduled one starts its next run.
        run_after_ms: when a sleeping or rescheduled job is due again; epoch milliseconds.
        waits_for: messages that make a sleeping job due earlier.
        next_attempts: number of attempts of the next run; None if there is none.
        undoes: whether the job has given up, and has ``next_attempts`` to undo its sagas.
        result: what the job returned, if its class declares a result type.
        result_bytes: the result as a worker sends it.
    """

    job: Job | None
    descriptor: str
    attempt: int
    attempts_allowed: int
    ending: Ending
    error: BaseException | None = None
    status: str = ""
    retry_delay: float = 0.0
    body: bytes | None = None
    run_after_ms: int | None = None
    waits_for: Sequence[MessageWait] = ()
    next_attempts: int | None = None
    undoes: bool = False
    result: Any = None
    result_bytes: bytes | None = None

    @property
    def runs_again(self) -> bool:
        """Whether the job has another attempt in this run."""
        if self.next_attempts is not None:
            return self.undoes
        if self.ending is Ending.FAILED:
            return self.attempt < self.attempts_allowed
        return self.ending is Ending.INTERRUPTED


class Attempts:
    """Runs attempts of jobs as a job process does.

    Attributes:
        codec: decodes bodies of the classes.

    Args:
        kinds: the known job classes.
        calls: what jobs need from a server.
        now: returns epoch seconds by the server's clock.
        middleware: middleware of each run, outermost first.

    Raises:
        ConfigError: two classes share a name.
    """

    def __init__(
        self,
        kinds: Iterable[type[Job]],
        calls: ServerCalls,
        *,
        now: Callable[[], float] = time,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        self.codec = JobCodec(kinds)
        self._watched = _WatchedCodec(kinds)
        self._calls = calls
        self._row = ClaimRow(memoryview(bytearray(SOLO_LAYOUT.row_bytes)))
        self._saver = _DirectSaver(calls)
        self._runner = _WatchedRunner(self._watched, self._saver, now=now, middleware=middleware)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    def run(self, claimed: ClaimedJob) -> Outcome:
        """Run one attempt."""
        self._watched.job = self._watched.error = self._runner.context = None
        self._saver.keep = lambda body, attempts: self._calls.save(claimed, body, attempts)
        self._saver.is_cancelled = lambda: self._calls.is_cancelled(claimed)
        batch = self._batch(claimed)
        try:
            ended = self._runner.run(batch, 0, monotonic_ns())
        finally:
            batch.finish([0])
        return self._outcome(claimed, ended)

    def _batch(self, claimed: ClaimedJob) -> DequeuedBatch:
        area = self._row.acquire_area()
        assert area is not None  # only one job runs at a time
        return DequeuedBatch(claimed_reply(claimed), area)

    def _outcome(self, claimed: ClaimedJob, ended: RunnersOutcome | None) -> Outcome:
        allowed, remaining = claimed.attempts_allowed or 1, claimed.attempts_remaining or 1
        job, error = self._watched.job, self._runner.error or self._watched.error
        attempt = allowed - remaining + 1
        if self._runner.context is not None:  # the server may count spare attempts, too
            attempt, allowed = self._runner.context.attempt, self._runner.context.attempts_allowed
        facts = (job, claimed.descriptor, attempt, allowed)
        if isinstance(ended, Failure):
            ending = Ending.DISCARDED if ended.delay_ms is None else Ending.FAILED
            return Outcome(*facts, ending, error, ended.status, (ended.delay_ms or 0) / 1000)
        if isinstance(ended, Interruption):
            return Outcome(
                *facts,
                _ending_of(ended, error),
                error,
                ended.status,
                body=ended.body,
                run_after_ms=ended.run_after_ms,
                waits_for=ended.waits_for,
                next_attempts=ended.attempts,
                undoes=isinstance(ended, Undoing),
            )
        if isinstance(ended, LostClaim):
            return Outcome(*facts, Ending.LOST, error)
        if isinstance(ended, Result) and job is not None:
            result = decode_result(type(job), ended.result)
            return Outcome(*facts, Ending.SUCCEEDED, result=result, result_bytes=ended.result)
        return Outcome(*facts, Ending.SUCCEEDED)


def _ending_of(ended: Interruption, error: BaseException | None) -> Ending:
    if ended.attempts is None:
        return Ending.INTERRUPTED
    if error is None and not ended.status:
        return Ending.RESCHEDULED
    return Ending.DISCARDED if isinstance(error, Discard) else Ending.FAILED


class _WatchedCodec(JobCodec):
    """Records the last decoded job or error."""

    job: Job | None = None
    error: Exception | None = None

    def decode(self, queue: str, body: bytes) -> Job:
        try:
            self.job = super().decode(queue, body)
        except Exception as error:
            self.error = error
            raise
        self.error = None  # the first try failed if the runner has reset the body of a periodic job
        return self.job


class _WatchedRunner(Runner):
    """Keeps the context of the last run."""

    context: RunContext | None = None

    @property
    def error(self) -> BaseException | None:
        """The exception that decided the outcome of the last run; None: there was none."""
        return None if self.context is None else self.context.reason

    def _attempt(self, context: RunContext, now_ns: int) -> RunnersOutcome | None:
        self.context = context
        attempt = partial(super()._attempt, context, now_ns)
        return _without_loop(attempt) if iscoroutinefunction(context.job.run) else attempt()

    def close(self) -> None:
        _without_loop(super().close)

    def _ended(self, context: RunContext, error: BaseException | None, started_ns: int) -> RunnersOutcome | None:
        if error is not None and not isinstance(error, _OF_A_JOB) and interruption_in(error) is None:
            raise error
        return super()._ended(context, error, started_ns)


def _without_loop(function: Callable[[], T]) -> T:
    """Call a function that runs an event loop: in a thread of its own, if this one runs the loop of an async test."""
    if not _runs_loop():
        return function()  # not while an exception is handled, which the job's traceback would begin with
    with ThreadPoolExecutor(1, "pinlater-test") as thread:
        return thread.submit(copy_context().run, function).result()


def _runs_loop() -> bool:
    """Return whether this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _DirectSaver(Saver):
    """Passes bodies to a function instead of a server; never drains."""

    patience_seconds = 0.0
    keep: Callable[[bytes, int | None], object]
    is_cancelled: Callable[[], bool]

    def __init__(self, calls: ServerCalls) -> None:
        self._direct = calls

    @property
    def keeps_messages(self) -> bool:
        return False

    def is_stored(self, message_id: str) -> bool:  # noqa: ARG002 - none is sent
        return False

    @property
    def is_draining(self) -> bool:
        return False

    def save(self, batch: DequeuedBatch, position: int, encode: Encode) -> bool:
        body = encode().body
        if body is not None:
            settle_save(batch, position, partial(self.keep, body, batch.new_attempts.get(position)))
        if self.is_cancelled():
            batch.mark_cancelled(position)
        return True

    save_briefly = save

    def enqueue(self, follow_ups: FollowUps) -> list[str]:
        return self._direct.enqueue_once(follow_ups.queue, follow_ups.jobs, follow_ups.key)

    def read_messages(self, descriptor: str, name: str, after: int, limit: int) -> list[ReceivedMessage]:
        return self._direct.read_messages(descriptor, name, after=after, limit=limit)

    def ask_messages(
        self, descriptor: str, name: str, after: int, limit: int
    ) -> Callable[[], Sequence[ReceivedMessage]]:
        return partial(self.read_messages, descriptor, name, after, limit)

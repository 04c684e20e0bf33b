"""The ``JobContext`` of a job that runs in a worker."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from math import inf
from threading import get_ident
from typing import Any, NoReturn, TypeVar, Unpack

from pinlater.errors import JobExpired, JobInterrupted, JobSleeps, PinLaterError, StepMismatch
from pinlater.jobs.body_codec import options_of
from pinlater.jobs.cursor import iterate
from pinlater.jobs.enqueue_options import FollowUpOptions
from pinlater.jobs.follow_ups import follow_up_key, set_unique_key
from pinlater.jobs.job import Job
from pinlater.jobs.lazy_attribute import lazy
from pinlater.jobs.next_run import NextRun, NextRunPlan
from pinlater.jobs.options import JobOptions
from pinlater.jobs.result_codec import encode_result
from pinlater.jobs.run_keys import new_run_id
from pinlater.jobs.step_deadline import StepDeadline
from pinlater.jobs.step_records import StepRecords
from pinlater.jobs.workflow_context import WorkflowContext
from pinlater.model.body_metadata import METADATA_BYTE, BodyMetadata, Recurrence, SagaMark, read_recurrence
from pinlater.model.descriptor import queue_of
from pinlater.model.policy import may_have_policy
from pinlater.model.progress import Progress
from pinlater.model.trace_context import read_trace_context, trace_log_fields
from pinlater.worker.running.blocked import blocked_wait
from pinlater.worker.running.claim_checks import check_stop
from pinlater.worker.running.job_body import JobBody
from pinlater.worker.running.job_log import JobLog
from pinlater.worker.running.run_limits import RunLimits
from pinlater.worker.running.run_services import DEFAULT_SERVICES, RunServices
from pinlater.worker.running.server_link import ServerLink
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.pipeline import CALL_SECONDS
from pinlater.worker.session.saver import Saver

SPARE_ATTEMPTS = 3
"""Extra attempts that the server allows a job with something to undo: as many as the crashes in a row that make a job
poison."""
_RETRY_SECONDS = 1.0
"""Delay after a checkpoint that no server saved."""
_PUBLISH_SECONDS = 1.0
"""Shortest time between two sends of published fields."""

_AT_ONCE = nullcontext()
_T = TypeVar("_T")


class RunContext(WorkflowContext):
    """Context of one attempt of one job.

    Args:
        job, batch, position, saver: see below.
        services: what the contexts of a runner share.

    Attributes:
        job: the record.
        batch: the job's batch.
        position: its position there.
        body: the body of the job.
        saver: makes the calls to the server.
        next_run: when the job runs again if it succeeds; ``reschedule`` replaces what was planned.
        result: the encoded result of the job, if one is stored.
        may_have_metadata: whether the body may have metadata.
        options: options of the job's class, changed by those of its enqueue.
        run_limits: records each sign of progress; None if the job has no ``stall_after``.
        reason: the exception that has decided the outcome; None: none, or the outcome is not known yet.
        status_note: text for the job's custom status if this attempt is interrupted.

    Raises:
        BodyInvalid: the options of its enqueue cannot be read.
    """

    body = lazy(JobBody)  # made when it is first needed: in most jobs, never
    run_limits: RunLimits | None = None
    reason: BaseException | None = None
    status_note = ""
    _next_save: float | None = None
    _published_at: float | None = None
    _link = lazy(ServerLink)

    def __init__(
        self,
        job: Job,
        batch: DequeuedBatch,
        position: int,
        saver: Saver,
        services: RunServices = DEFAULT_SERVICES,
    ) -> None:
        metadata = batch.metadata[position]
        allowed = metadata.attemptsAllowed
        self.attempts_allowed: int = allowed
        self.attempt: int = allowed - metadata.attemptsRemaining + 1
        self.descriptor: str = batch.descriptors[position]
        self.thread = get_ident()
        self.job = job
        self.batch = batch
        self.position = position
        self.saver = saver
        self._services = services
        body = batch.bodies[position]
        self.options = job.job_options
        # Read at the end of each run: as class attributes, they would be searched for in all bases.
        self.interruption = self.saga_failure = self.unawaited_steps = None
        self.next_run: NextRunPlan | None = None
        self.result: bytes | None = None
        self.may_have_metadata = METADATA_BYTE in body
        if self.may_have_metadata:
            if may_have_policy(body):
                self.options = options_of(job, body)
            self._count_attempts_without_spare()

    def __str__(self) -> str:
        return f"{self.descriptor} attempt {self.attempt}/{self.attempts_allowed}"

    @lazy
    def queue(self) -> str:
        """Return the queue that the job came from."""
        return queue_of(self.descriptor)

    @lazy
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """Return a logger whose lines carry the job."""
        return JobLog(logging.getLogger(type(self.job).__module__), self.log_fields)

    @property
    def log_fields(self) -> dict[str, object]:
        """Return the job's fields for log lines."""
        return {
            "descriptor": self.descriptor,
            "queue": self.queue,
            "class": self.job.job_options.name,
            "attempt": self.attempt,
            "attempts_allowed": self.attempts_allowed,
            **trace_log_fields(self.trace_context),
        }

    @property
    def trace_context(self) -> Mapping[str, str]:
        """Return the trace context that came with the job; see ``JobContext.trace_context``."""
        return read_trace_context(self._metadata.trace) if self.may_have_metadata else {}

    @property
    def previous_trace_context(self) -> Mapping[str, str]:
        """Return the trace context of the run before; see ``JobContext.previous_trace_context``."""
        return read_trace_context(self._metadata.previous) if self.may_have_metadata else {}

    @property
    def is_draining(self) -> bool:
        """Whether the worker is stopping."""
        return self.saver.is_draining

    def checkpoint(self, *, flush: bool = False) -> None:
        """Save the record; see ``JobContext.checkpoint``."""
        if self.interruption is not None or self.batch.area.stop_ns[self.position]:
            self.go_on()
            self.begin_unless_something_to_undo_is_ahead()
        if self.saver.is_draining:
            self._save_surely()
            raise self.interrupt(JobInterrupted())
        now = time.monotonic()
        if self.run_limits is not None:
            self.run_limits.record_progress(now)
        if self._next_save is None:
            self._next_save = now + self.options.heartbeat
        if flush:
            self._save_surely()
        elif now < self._next_save:
            return
        elif not self.body.save_briefly():  # the job does not wait for a server
            self._next_save = now + min(self.options.heartbeat, _RETRY_SECONDS)
            return
        self._next_save = now + self.options.heartbeat

    def iterate(self, items: Iterable[_T], *, cursor: str = "cursor") -> Iterator[_T]:
        """Iterate from the cursor on; see ``JobContext.iterate``."""
        return iterate(self.job, items, cursor, self.go_on, self.checkpoint)

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Report progress; see ``JobContext.progress``."""
        self._refuse_raw("progress")
        body, now = self.body, time.monotonic()
        body.metadata.progress, body.has_unsent_reports = Progress(done, total, note), True
        self._record_progress()
        if body.sent_at is None:
            body.sent_at = now
        beats = 1 if self._next_save is None else 2  # checkpoints carry the progress, too, unless they are rare
        if now >= body.sent_at + beats * self.options.heartbeat:
            body.send_reports()

    def publish(self, **fields: Any) -> None:
        """Show fields; see ``JobContext.publish``."""
        super().publish(**fields)
        self._record_progress()
        self.body.has_unsent_reports = True
        now = time.monotonic()
        if self._published_at is None or now >= self._published_at + _PUBLISH_SECONDS:
            self._published_at = now
            self.body.send_reports()

    def enqueue(self, job: Job, *, name: str, **options: Unpack[FollowUpOptions]) -> str:
        """Enqueue a follow-up once; see ``JobContext.enqueue``."""
        self.go_on()
        self._refuse_raw("follow-up jobs")
        enqueued, use = self._metadata.enqueued, self._follow_up_names.next(name)
        if use in enqueued:
            return enqueued[use]
        self.begin()
        key = follow_up_key(self.descriptor, self._metadata.run, use)
        set_unique_key(options, key)
        enqueued[use] = descriptor = self._link.enqueue_follow_up(job, key, options)
        self._save_surely()
        return descriptor

    @property
    def created_at_ms(self) -> int | None:
        """When the job was enqueued, epoch milliseconds; None if the server does not tell."""
        created_at_ms: int | None = self.batch.metadata[self.position].createdAtTimestampMillis
        return created_at_ms

    def reschedule(self, *, after: float | None = None, at: datetime | float | None = None) -> None:
        """Schedule the next run; see ``JobContext.reschedule``."""
        self._refuse_raw("its next run")
        self.next_run = NextRun.of(after, at)

    @property
    def scheduled_for(self) -> datetime | None:
        """Return the moment that this run was scheduled for; see ``JobContext.scheduled_for``."""
        again, schedule = self._metadata.recurrence, self.job.job_options.schedule
        zone = UTC if schedule is None else schedule.zone
        return None if again is None else datetime.fromtimestamp(again.due_ms / 1000, zone)

    def _running_job(self) -> Job:
        return self.job

    @property
    def _running_options(self) -> JobOptions:
        return self.options

    @lazy
    def _metadata(self) -> BodyMetadata:  # read when it is needed
        return self.body.metadata

    @property
    def step_records(self) -> StepRecords | None:
        """The records of finished steps; None if the job has come to no step yet."""
        steps = self.__dict__.get("_steps")
        return None if steps is None else steps.records

    @property
    def saga_mark(self) -> SagaMark | None:
        """What has to be undone if the job gives up."""
        return self.body.saga_mark

    def server_seconds(self) -> float:
        """Return epoch seconds of the server's clock."""
        return self._services.now()

    @property
    def now_ms(self) -> int:
        """Epoch milliseconds of the server's clock."""
        return int(self._services.now() * 1000)

    def _new_run_id(self) -> str:
        return new_run_id(self.descriptor, self.created_at_ms, self._metadata.run)

    def _record_progress(self) -> None:
        if self.run_limits is not None:
            self.run_limits.record_progress(time.monotonic())

    @lazy
    def expires_ms(self) -> float:
        """Epoch milliseconds when the job's ``give_up_after`` ends; inf if not limited or not known."""
        seconds = self.options.give_up_after
        if seconds is None or ((mark := self.saga_mark) is not None and mark.why):  # it is undone, however late
            return inf
        again = self.recurrence
        began_ms = self.created_at_ms if again is None else again.due_ms
        return inf if began_ms is None else began_ms + 1000 * seconds  # the original's server does not tell

    @property
    def is_periodic(self) -> bool:
        """Whether the job is periodic."""
        return self.recurrence is not None and bool(self.recurrence.schedule)

    @lazy
    def recurrence(self) -> Recurrence | None:
        """What the job was rescheduled with, or enqueued with as a periodic one; None for other jobs."""
        return read_recurrence(self.batch.bodies[self.position]) if self.may_have_metadata else None

    def expired(self, what: str) -> JobExpired:
        """Return an error for the end of ``give_up_after``, whose text begins with ``what``."""
        return JobExpired(f"{what} its give_up_after of {self.options.give_up_after:g} s is over")

    def record_returned(self, returned: object) -> None:
        """Encode the result of the job, unless it is to run again: that would be the result of many runs.

        Raises:
            ResultInvalid, ResultTooLarge, ConfigError: see ``encode_result``.
        """
        if self.next_run is None and self.interruption is None:
            self.result = encode_result(self.job, returned)

    def _count_attempts_without_spare(self) -> None:
        mark, given = self.saga_mark, self.attempts_allowed
        if mark is not None and mark.given == given:
            self.attempt, self.attempts_allowed = mark.attempt + self.attempt - 1, mark.allowed

    def new_saga_mark(self) -> SagaMark:
        """Return a new mark, and have the server give the job spare attempts with the next checkpoint."""
        if self.is_periodic:  # it has some anyway
            return SagaMark()
        given = self.attempts_allowed - self.attempt + 1 + SPARE_ATTEMPTS
        self.batch.new_attempts = {**self.batch.new_attempts, self.position: given}
        return SagaMark([], "", self.attempts_allowed, self.attempt, given)

    def limit_step(self, deadline: StepDeadline) -> AbstractContextManager[None]:
        """Return a context in which the deadline of a step is enforced."""
        return self._services.limit_step(deadline)

    def _save_surely(self) -> bool:
        return self.body.save()

    async def _save_awaited(self) -> bool:
        return await self.body.save_awaited()

    def while_calling(self) -> AbstractContextManager[None]:
        """Return a context for a call to the server: while it waits, the job does not count as stalled."""
        if self.run_limits is None:
            return _AT_ONCE
        return self.run_limits.calling(self.saver.patience_seconds + CALL_SECONDS)

    # How the attempt ends

    def note_interruption(self, why: JobInterrupted) -> None:
        """Record that the attempt ends, and with which body."""
        if self.interruption is None:
            self.body.note_interruption()
        super().note_interruption(why)

    def refuse_record(self, step: str, error: StepMismatch) -> NoReturn:
        """Let the job wait for code that fits its recorded steps; see ``wait_while_blocked``."""
        self.wait_while_blocked(step, error)

    def wait_while_blocked(self, key: str, error: PinLaterError) -> NoReturn:
        """End the attempt, and let the job wait until it may go on; when it has waited long enough, raise the error.

        Args:
            key: identifies what blocks the job.
            error: says so in words; its class is one of ``REASONS``.
        """
        known, give_up_seconds = self._metadata.mismatch, self._services.unknown_seconds
        wait = blocked_wait(known, key, error, now_ms=self.now_ms, give_up_seconds=give_up_seconds)
        if wait is None:
            raise error
        self._metadata.mismatch, self.status_note = wait.mark, wait.status
        raise self.interrupt(JobSleeps(wait.until_ms)) from error

    @property
    def is_cancelled(self) -> bool:
        """Whether the job was cancelled; see ``JobContext.is_cancelled``."""
        return self.batch.is_cancelled(self.position)

    def go_on(self) -> None:
        """Raise the interruption if the attempt was ended before, the claim was lost or the job was cancelled."""
        if self.batch.area.stop_ns[self.position]:
            check_stop(self)
        super().go_on()

"""The ``JobContext`` of a job that runs in a worker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import cached_property, partial
from math import inf
from threading import get_ident
from typing import Any, TypeVar, Unpack

from pinlater.client.jobs import encoder, target_queue
from pinlater.client.servers import STORE_OUT_OF_REACH
from pinlater.errors import JobExpired, JobInterrupted, QueueNotFound
from pinlater.jobs.body_codec import options_of
from pinlater.jobs.cursor import iterate
from pinlater.jobs.enqueue_options import FollowUpOptions
from pinlater.jobs.follow_ups import follow_up_key, idempotency_key, set_unique_key
from pinlater.jobs.job import Job
from pinlater.jobs.message_link import MessageLink
from pinlater.jobs.next_run import NextRun, NextRunPlan
from pinlater.jobs.options import JobOptions
from pinlater.jobs.result_codec import encode_result
from pinlater.jobs.run_keys import new_run_id
from pinlater.jobs.step_deadline import StepDeadline
from pinlater.model.body_metadata import METADATA_BYTE, OPEN_SAGA, Recurrence, SagaMark, read_recurrence
from pinlater.model.descriptor import queue_of
from pinlater.model.policy import may_have_policy
from pinlater.model.progress import Progress
from pinlater.model.trace_context import EnqueueTrace, UntracedEnqueue, read_trace_context, trace_log_fields
from pinlater.worker.running.body_context import BodyContext
from pinlater.worker.running.job_log import JobLog
from pinlater.worker.running.message_pages import MessagePages
from pinlater.worker.running.run_limits import RunLimits
from pinlater.worker.running.run_services import DEFAULT_SERVICES, RunServices
from pinlater.worker.running.server_link import ServerLink
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.pipeline import CALL_SECONDS
from pinlater.worker.session.saver import Encode, FollowUps, Saver, Snapshot

SPARE_ATTEMPTS = 3
"""Extra attempts that the server allows a job with something to undo: as many as the crashes in a row that make a job
poison."""
_RETRY_SECONDS = 1.0
"""Delay after a checkpoint that no server saved."""
_PUBLISH_SECONDS = 1.0
"""Shortest time between two sends of published fields."""

_AT_ONCE = nullcontext()
_T = TypeVar("_T")

_Save = Callable[[DequeuedBatch, int, Encode], bool]

_unchanged: Encode = partial(Snapshot, None)


class RunContext(BodyContext):
    """Context of one attempt of one job.

    Args:
        job, batch, position: see below.
        saver: sends checkpoints.
        services: what the contexts of a runner share.

    Attributes:
        job: the record.
        batch: the job's batch.
        position: its position there.
        next_run: when the job runs again if it succeeds; ``reschedule`` replaces what was planned.
        result: the encoded result of the job, if one is stored.
        may_have_metadata: whether the body may have metadata.
        options: options of the job's class, changed by those of its enqueue.
        run_limits: records each sign of progress; None if the job has no ``stall_after``.

    Raises:
        BodyInvalid: the options of its enqueue cannot be read.
    """

    run_limits: RunLimits | None = None
    _next_save: float | None = None
    _sent_at: float | None = None
    _published_at: float | None = None

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
        self._saver = saver
        self._services = services
        self._last_body = body = batch.bodies[position]
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

    @cached_property
    def queue(self) -> str:  # type: ignore[override]
        """Return the queue that the job came from."""
        return queue_of(self.descriptor)

    @cached_property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:  # type: ignore[override]
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
        return self._saver.is_draining

    def checkpoint(self, *, flush: bool = False) -> None:
        """Save the record; see ``JobContext.checkpoint``."""
        if self.interruption is not None or self.batch.area.stop_ns[self.position]:
            self.go_on()
            self.begin_unless_something_to_undo_is_ahead()
        if self._saver.is_draining:
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
        elif not self._save(self._saver.save_briefly, self._encoded):  # the job does not wait for a server
            self._next_save = now + min(self.options.heartbeat, _RETRY_SECONDS)
            return
        self._next_save = now + self.options.heartbeat

    def iterate(self, items: Iterable[_T], *, cursor: str = "cursor") -> Iterator[_T]:
        """Iterate from the cursor on; see ``JobContext.iterate``."""
        return iterate(self.job, items, cursor, self.go_on, self.checkpoint)

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Report progress; see ``JobContext.progress``."""
        self._refuse_raw("progress")
        self._metadata.progress, self.has_unsent_reports = Progress(done, total, note), True
        self._record_progress()
        now = time.monotonic()
        if self._sent_at is None:
            self._sent_at = now
        beats = 1 if self._next_save is None else 2  # checkpoints carry the progress, too, unless they are rare
        if now >= self._sent_at + beats * self.options.heartbeat:
            self.send_reports()

    def publish(self, **fields: Any) -> None:
        """Show fields; see ``JobContext.publish``."""
        super().publish(**fields)
        self._record_progress()
        self.has_unsent_reports = True
        now = time.monotonic()
        if self._published_at is None or now >= self._published_at + _PUBLISH_SECONDS:
            self._published_at = now
            self.send_reports()

    def send_reports(self) -> None:
        """Send progress and published fields, without the record, which the job may be changing; wait for no server."""
        self._send(self._saver.save_briefly, self._encoded_reports)

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
        target = target_queue(job, options.get("queue"))
        with self._sending(target) as sending:
            struct = encoder(options, sending.trace, self.server_seconds).struct(job)
            follow_up = FollowUps(target, [struct], idempotency_key(key, self._created_at_ms), self._may_repeat)
            [descriptor] = self._enqueue(follow_up)
            sending.record_stored([target], 1, descriptor)
        enqueued[use] = descriptor
        self._save_surely()
        return descriptor

    def _enqueue(self, follow_ups: FollowUps) -> list[str]:
        """Enqueue other jobs; if their queue is missing, or the shard that they belong on is away, wait for it."""
        missing = f"queue {follow_ups.queue}"
        try:
            with self._while_calling():
                stored = self._saver.enqueue(follow_ups)
        except (QueueNotFound, *STORE_OUT_OF_REACH) as error:
            self.wait_while_blocked(missing, error)
        self._metadata.accept_record(missing)
        return stored

    @property
    def _created_at_ms(self) -> int | None:
        created_at_ms: int | None = self.batch.metadata[self.position].createdAtTimestampMillis
        return created_at_ms

    @cached_property
    def _link(self) -> MessageLink:
        return ServerLink(
            MessagePages(self._saver, self.descriptor),
            created_at_ms=self._created_at_ms,
            may_repeat=self._may_repeat,
            now=self._services.now,
            calling=self._while_calling,
            reading=self._reading_of_own_shard,
            tracing=self._sending,
            send=self._enqueue,
        )

    def _sending(self, queue: str) -> EnqueueTrace:
        return UntracedEnqueue(self.trace_context) if self.run_trace is None else self.run_trace.trace_enqueue(queue)

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

    @property
    def _running_options(self) -> JobOptions:
        return self.options

    def _new_run_id(self) -> str:
        return new_run_id(self.descriptor, self._created_at_ms, self._metadata.run)

    def _record_progress(self) -> None:
        if self.run_limits is not None:
            self.run_limits.record_progress(time.monotonic())

    @cached_property
    def expires_ms(self) -> float:
        """Epoch milliseconds when the job's ``give_up_after`` ends; inf if not limited or not known."""
        seconds = self.options.give_up_after
        if seconds is None or ((mark := self.saga_mark) is not None and mark.why):  # it is undone, however late
            return inf
        again = self.recurrence
        began_ms = self._created_at_ms if again is None else again.due_ms
        return inf if began_ms is None else began_ms + 1000 * seconds  # the original's server does not tell

    @property
    def is_periodic(self) -> bool:
        """Whether the job is periodic."""
        return self.recurrence is not None and bool(self.recurrence.schedule)

    @cached_property
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

    def ask_if_cancelled(self) -> None:
        """Ask a server whether a job with something to undo was cancelled; then it was only handed out to undo that.

        Other jobs learn it with their next save.
        """
        if self._may_have_been_cancelled():
            self._send(self._saver.save, _unchanged)

    async def ask_if_cancelled_awaited(self) -> None:
        """Ask from a coroutine; see ``ask_if_cancelled``."""
        if self._may_have_been_cancelled():
            with self._while_calling():
                await self._submitted(_unchanged)

    def _may_have_been_cancelled(self) -> bool:
        mark = self.saga_mark if OPEN_SAGA in self._last_body else None
        if mark is not None and mark.is_cancelled:
            self.batch.mark_undoing(self.position)
        return mark is not None and not mark.why

    def limit_step(self, deadline: StepDeadline) -> AbstractContextManager[None]:
        """Return a context in which the deadline of a step is enforced."""
        return self._services.limit_step(deadline)

    def _save_surely(self) -> bool:
        return self._save(self._saver.save, self._encoded_to_move)

    async def _save_awaited(self) -> bool:
        """Save from a coroutine without blocking its event loop, if other jobs run on it."""
        self._sent_at = time.monotonic()
        keeps = self._saver.keeps_messages
        with self._while_calling():
            is_saved = await self._submitted(self._encoded_to_move)
            if not is_saved and keeps and not self._saver.keeps_messages:
                is_saved = await self._submitted(self._encoded_to_move)
        if self.batch.area.stop_ns[self.position]:
            self.go_on()
        return is_saved

    def _submitted(self, encode: Encode) -> Awaitable[bool]:
        return asyncio.wrap_future(self._saver.submit(self.batch, self.position, encode))

    def _save(self, save: _Save, encode: Encode) -> bool:
        keeps = self._saver.keeps_messages
        is_saved = self._send(save, encode)
        if not is_saved and keeps and not self._saver.keeps_messages:
            is_saved = self._send(save, encode)
        if self.batch.area.stop_ns[self.position]:
            self.go_on()
        return is_saved

    def _send(self, save: _Save, encode: Encode) -> bool:
        self._sent_at = time.monotonic()
        with self._while_calling():
            return save(self.batch, self.position, encode)

    def _while_calling(self) -> AbstractContextManager[None]:
        """Return a context for a call to the server: while it waits, the job does not count as stalled."""
        if self.run_limits is None:
            return _AT_ONCE
        return self.run_limits.calling(self._saver.patience_seconds + CALL_SECONDS)

"""Builds the bodies from which a job continues: those of saves, of interruptions and of its next run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import NoReturn

import msgspec

from pinlater.client.servers import STORE_OUT_OF_REACH
from pinlater.errors import JobInterrupted, JobSleeps, PinLaterError, StepMismatch
from pinlater.jobs.body_codec import encode_body, encoded_unknown_fields
from pinlater.jobs.job import Job, RawJob
from pinlater.jobs.outside_steps import steps_name
from pinlater.model.body_metadata import (
    BodyMetadata,
    LastRun,
    SagaMark,
    read_metadata,
    read_saga,
    replace_metadata,
    with_reports,
)
from pinlater.worker.running.blocked import blocked_wait
from pinlater.worker.running.claimed_context import ClaimedContext
from pinlater.worker.running.run_services import RunServices
from pinlater.worker.session.saver import Saver, Snapshot

_OWN_SHARD = "shard of the job"
"""Key under which a job waits for its own shard; it is not the name of a step."""


class BodyContext(ClaimedContext):
    """A context that knows the body of its job, as it was dequeued or last saved.

    Attributes:
        tick_started_ms: epoch milliseconds at which the attempt of a periodic job started; None for other jobs.
        status_note: text for the job's custom status if this attempt is interrupted.
        has_unsent_reports: whether progress or published fields wait for a save.
    """

    tick_started_ms: int | None = None
    status_note = ""
    has_unsent_reports = False
    job: Job
    _services: RunServices
    _saver: Saver
    _last_body: bytes
    _body_when_interrupted = b""

    def _running_job(self) -> Job:
        return self.job

    @cached_property
    def _metadata(self) -> BodyMetadata:  # type: ignore[override] # read when it is needed
        return BodyMetadata() if isinstance(self.job, RawJob) else read_metadata(self._last_body)

    @cached_property
    def _slept(self) -> dict[str, int]:
        """The sleeps that were over when this attempt began."""
        return read_metadata(self.batch.bodies[self.position]).sleeps

    @cached_property
    def _unknown_fields(self) -> bytes:
        """Fields of the body that only another version of the class reads; saved bodies keep them."""
        return encoded_unknown_fields(self.job, self._last_body)

    @property
    def saga_mark(self) -> SagaMark | None:
        """What has to be undone if the job gives up."""
        return self._metadata.saga if "_metadata" in self.__dict__ else read_saga(self._last_body)

    def note_interruption(self, why: JobInterrupted) -> None:
        """Record that the attempt ends, and with which body."""
        if self.interruption is None:
            self._body_when_interrupted = self._last_body
        super().note_interruption(why)

    @property
    def _may_repeat(self) -> bool:
        """Whether the job may have enqueued others before without an answer."""
        return self.attempt > 1 or self._metadata.mismatch is not None

    def refuse_record(self, step: str, error: StepMismatch) -> NoReturn:
        """Let the job wait for code that fits its recorded steps; see ``wait_while_blocked``."""
        self.wait_while_blocked(step, error)

    def wait_while_blocked(self, key: str, error: PinLaterError) -> NoReturn:
        """End the attempt, and let the job wait until it may go on; when it has waited long enough, raise the error.

        Args:
            key: identifies what blocks the job.
            error: says so in words; its class is one of ``REASONS``.
        """
        now_ms, give_up_seconds = int(self.server_seconds() * 1000), self._services.unknown_seconds
        wait = blocked_wait(self._metadata.mismatch, key, error, now_ms=now_ms, give_up_seconds=give_up_seconds)
        if wait is None:
            raise error
        self._metadata.mismatch, self.status_note = wait.mark, wait.status
        raise self.interrupt(JobSleeps(wait.until_ms)) from error

    @contextmanager
    def _reading_of_own_shard(self) -> Iterator[None]:
        """Let the job wait if its own shard is away while it reads its messages."""
        try:
            yield
        except STORE_OUT_OF_REACH as error:
            self.wait_while_blocked(_OWN_SHARD, error)
        self._metadata.accept_record(_OWN_SHARD)

    def body(self) -> bytes:
        """Encode the job as it is now, including results of steps that are not known to be stored outside.

        Raises:
            BodyInvalid: it holds something that JSON cannot carry.
        """
        return self._body_with(self._settled_metadata())

    def _settled_metadata(self) -> BodyMetadata:
        if "_steps" in self.__dict__:
            self._steps.records.settle(self._saver.is_stored)
        return self._metadata

    def _body_to_save(self, metadata: BodyMetadata) -> bytes:
        """Encode the job for a save, without the sleeps that began in this attempt.

        Steps that run at the same time are saved after a sleep has begun. If the process died then, the next attempt
        would take the sleep for over, although the job has not gone back to its queue.
        """
        if metadata.sleeps and len(metadata.sleeps) > len(self._slept):
            metadata = msgspec.structs.replace(metadata, sleeps=self._slept)
        return self._body_with(metadata)

    def begin_tick(self, now_ms: int) -> None:
        """Record that the attempt of a periodic job starts at epoch milliseconds ``now_ms``; saved bodies say so."""
        self.tick_started_ms = now_ms
        metadata = self._metadata
        if metadata.recurrence is not None:
            metadata.recurrence = msgspec.structs.replace(metadata.recurrence, has_begun=True)

    def _body_with(self, metadata: BodyMetadata) -> bytes:
        return encode_body(self.job, metadata, self._unknown_fields)

    def body_after(self, why: JobInterrupted) -> bytes:
        """Return the body that an interrupted job resumes from.

        If it swallowed the interruption, the fields are those of that time: later ones may say that all is done.

        Raises:
            BodyInvalid: it holds something that JSON cannot carry.
        """
        if not why.was_swallowed:
            return self.body()
        body = self._body_when_interrupted
        return body if isinstance(self.job, RawJob) else replace_metadata(body, self._metadata)

    def body_of_next_run(self, due_ms: int) -> bytes:
        """Return the body of the next run, which is due at epoch milliseconds ``due_ms``.

        Raises:
            BodyInvalid: the job holds something that JSON cannot carry.
        """
        return self._body_with(self._for_next_run(due_ms, "succeeded"))

    def body_of_next_run_after_failure(self, due_ms: int, *, is_failure: bool) -> bytes:
        """Return the body of the next run after a failed one, with the fields that another attempt would have had.

        Args:
            due_ms: when the next run is due, epoch milliseconds.
            is_failure: whether to count this run as failed.
        """
        return replace_metadata(self._last_body, self._for_next_run(due_ms, "failed" if is_failure else "discarded"))

    def body_to_undo(self, why: str, *, is_cancelled: bool = False) -> bytes:
        """Return the body with which the job undoes its sagas after it gave up, perhaps because it was cancelled."""
        metadata = self._metadata
        assert metadata.saga is not None
        metadata.saga.give_up(why, is_cancelled=is_cancelled)
        metadata.tries.clear()
        return replace_metadata(self._last_body, metadata)

    def _for_next_run(self, due_ms: int, result: str) -> BodyMetadata:
        trace = None if self.run_trace is None else self.run_trace.context
        return self._metadata.for_next_run(due_ms, trace, is_failure=result == "failed", ended=self._ended_run(result))

    def _ended_run(self, result: str) -> LastRun | None:
        """Return how this run went; None if the job is not periodic."""
        recurrence = self._metadata.recurrence
        if self.tick_started_ms is None or recurrence is None:
            return None
        now_ms = int(self.server_seconds() * 1000)
        return LastRun(recurrence.due_ms, self.tick_started_ms, now_ms, result, self.attempt)

    def server_seconds(self) -> float:
        """Return epoch seconds of the server's clock."""
        return self._services.now()

    @property
    def dropped(self) -> tuple[str, ...]:
        """Names of the messages that the next run does not need: results of this run's steps, ends of called jobs."""
        metadata = self._metadata
        has_moved = metadata.kept or ("_outside_steps" in self.__dict__ and self._outside_steps.has_moved)
        return (*(steps_name(metadata.run),) * bool(has_moved), *metadata.droppable())

    def _encoded(self) -> Snapshot:
        self._last_body = body = self._body_to_save(self._settled_metadata())
        self.has_unsent_reports = False
        return Snapshot(body)

    def _encoded_to_move(self) -> Snapshot:
        """Return what to save; large results of steps move out of the body with it."""
        snapshot = self._encoded()
        if not self._saver.keeps_messages or "_steps" not in self.__dict__:
            return snapshot
        move = self._steps.records.move(self.descriptor)
        return snapshot if move is None else Snapshot(self._body_to_save(move.metadata), (move.message,))

    def _encoded_reports(self) -> Snapshot:
        self.has_unsent_reports = False
        return Snapshot(with_reports(self._last_body, self._metadata))

"""The body of a running job: as it was dequeued or last saved, how it is saved, and what the job continues from."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from pinlater.errors import JobInterrupted
from pinlater.jobs.body_codec import encode_body, encoded_unknown_fields
from pinlater.jobs.job import RawJob
from pinlater.jobs.lazy_attribute import lazy
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
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.saver import Encode, Snapshot

if TYPE_CHECKING:
    from pinlater.worker.running.run_context import RunContext

_Save = Callable[[DequeuedBatch, int, Encode], bool]

_unchanged: Encode = partial(Snapshot, None)


class JobBody:
    """The body of the job of one attempt.

    Args:
        context: context of the attempt.

    Attributes:
        last: the body as it was dequeued or last saved.
        tick_started_ms: epoch milliseconds at which the attempt of a periodic job started; None for other jobs.
        has_unsent_reports: whether progress or published fields wait for a save.
        sent_at: when a save was last sent, monotonic seconds; None: never.
    """

    tick_started_ms: int | None = None
    has_unsent_reports = False
    sent_at: float | None = None
    _has_moved_steps = False

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._job, self._saver = context.job, context.saver
        self._dequeued = self.last = context.batch.bodies[context.position]
        self._when_interrupted = b""

    @lazy
    def metadata(self) -> BodyMetadata:
        """What the run has recorded in the body."""
        return BodyMetadata() if isinstance(self._job, RawJob) else read_metadata(self.last)

    @property
    def saga_mark(self) -> SagaMark | None:
        """What has to be undone if the job gives up."""
        return self.metadata.saga if "metadata" in self.__dict__ else read_saga(self.last)

    @lazy
    def _slept(self) -> dict[str, int]:
        """The sleeps that were over when this attempt began."""
        return read_metadata(self._dequeued).sleeps

    @lazy
    def _unknown_fields(self) -> bytes:
        """Fields of the body that only another version of the class reads; saved bodies keep them."""
        return encoded_unknown_fields(self._job, self.last)

    def begin_tick(self, now_ms: int) -> None:
        """Record that the attempt of a periodic job starts at epoch milliseconds ``now_ms``; saved bodies say so."""
        self.tick_started_ms = now_ms
        if self.metadata.recurrence is not None:
            self.metadata.recurrence = msgspec.structs.replace(self.metadata.recurrence, has_begun=True)

    # What the job continues from

    def encode(self) -> bytes:
        """Encode the job as it is now, including results of steps that are not known to be stored outside.

        Raises:
            BodyInvalid: it holds something that JSON cannot carry.
        """
        return self._with(self._settled_metadata())

    def _with(self, metadata: BodyMetadata) -> bytes:
        return encode_body(self._job, metadata, self._unknown_fields)

    def _settled_metadata(self) -> BodyMetadata:
        records = self._context.step_records
        if records is not None:
            records.settle(self._saver.is_stored)
        return self.metadata

    def note_interruption(self) -> None:
        """Record that the attempt ends now."""
        self._when_interrupted = self.last

    def after(self, why: JobInterrupted) -> bytes:
        """Return the body that an interrupted job resumes from.

        If it swallowed the interruption, the fields are those of that time: later ones may say that all is done.

        Raises:
            BodyInvalid: it holds something that JSON cannot carry.
        """
        if not why.was_swallowed:
            return self.encode()
        body = self._when_interrupted
        return body if isinstance(self._job, RawJob) else replace_metadata(body, self.metadata)

    def of_next_run(self, due_ms: int) -> bytes:
        """Return the body of the next run, which is due at epoch milliseconds ``due_ms``.

        Raises:
            BodyInvalid: the job holds something that JSON cannot carry.
        """
        return self._with(self._for_next_run(due_ms, "succeeded"))

    def of_next_run_after_failure(self, due_ms: int, *, is_failure: bool) -> bytes:
        """Return the body of the next run after a failed one, with the fields that another attempt would have had.

        Args:
            due_ms: when the next run is due, epoch milliseconds.
            is_failure: whether to count this run as failed.
        """
        return replace_metadata(self.last, self._for_next_run(due_ms, "failed" if is_failure else "discarded"))

    def to_undo(self, why: str, *, is_cancelled: bool = False) -> bytes:
        """Return the body with which the job undoes its sagas after it gave up, perhaps because it was cancelled."""
        assert self.metadata.saga is not None
        self.metadata.saga.give_up(why, is_cancelled=is_cancelled)
        self.metadata.tries.clear()
        return replace_metadata(self.last, self.metadata)

    def _for_next_run(self, due_ms: int, result: str) -> BodyMetadata:
        trace = None if self._context.run_trace is None else self._context.run_trace.context
        ended = self._ended_run(result)
        return self.metadata.for_next_run(due_ms, trace, is_failure=result == "failed", ended=ended)

    def _ended_run(self, result: str) -> LastRun | None:
        """Return how this run went; None if the job is not periodic."""
        recurrence = self.metadata.recurrence
        if self.tick_started_ms is None or recurrence is None:
            return None
        return LastRun(recurrence.due_ms, self.tick_started_ms, self._context.now_ms, result, self._context.attempt)

    @property
    def dropped(self) -> tuple[str, ...]:
        """Names of the messages that the next run does not need: results of this run's steps, ends of called jobs."""
        names = tuple(self.metadata.droppable())
        return (steps_name(self.metadata.run), *names) if self.metadata.kept or self._has_moved_steps else names

    # Saves

    def save(self) -> bool:
        """Save the job as it is now, even if that takes a while; return False if no server took it.

        Raises:
            JobInterrupted: the claim was lost, or the job was cancelled.
        """
        return self._save(self._saver.save, self._snapshot_to_move)

    def save_briefly(self) -> bool:
        """Save like ``save``, but wait for no server, and move nothing out of the body."""
        return self._save(self._saver.save_briefly, self._snapshot)

    async def save_awaited(self) -> bool:
        """Save like ``save``, from a coroutine and without blocking its event loop, if other jobs run on it."""
        keeps = self._saver.keeps_messages
        is_saved = await self._submit(self._snapshot_to_move)
        if not is_saved and keeps and not self._saver.keeps_messages:
            is_saved = await self._submit(self._snapshot_to_move)
        self._raise_if_stopped()
        return is_saved

    def send_reports(self) -> None:
        """Send progress and published fields, without the record, which the job may be changing; wait for no server."""
        self._send(self._saver.save_briefly, self._reports)

    def save_nothing(self) -> None:
        """Make the call of a save, only to learn whether the job was cancelled."""
        self._send(self._saver.save, _unchanged)

    def save_nothing_awaited(self) -> Awaitable[bool]:
        """Make the call from a coroutine; see ``save_nothing``."""
        return self._submit(_unchanged)

    def _save(self, save: _Save, encode: Encode) -> bool:
        keeps = self._saver.keeps_messages
        is_saved = self._send(save, encode)
        if not is_saved and keeps and not self._saver.keeps_messages:  # it was the first to learn that they cannot
            is_saved = self._send(save, encode)
        self._raise_if_stopped()
        return is_saved

    def _send(self, save: _Save, encode: Encode) -> bool:
        self.sent_at = time.monotonic()
        with self._context.while_calling():
            return save(self._context.batch, self._context.position, encode)

    async def _submit(self, encode: Encode) -> bool:
        self.sent_at = time.monotonic()
        with self._context.while_calling():
            return await asyncio.wrap_future(self._saver.submit(self._context.batch, self._context.position, encode))

    def _raise_if_stopped(self) -> None:
        """Raise the interruption if the reply has told that the job is not to go on."""
        if self._context.batch.area.stop_ns[self._context.position]:
            self._context.go_on()

    def _snapshot(self) -> Snapshot:
        self.last = body = self._to_save(self._settled_metadata())
        self.has_unsent_reports = False
        return Snapshot(body)

    def _snapshot_to_move(self) -> Snapshot:
        """Return what to save; large results of steps move out of the body with it."""
        snapshot = self._snapshot()
        records = self._context.step_records
        if records is None or not self._saver.keeps_messages:
            return snapshot
        move = records.move(self._context.descriptor)
        if move is None:
            return snapshot
        self._has_moved_steps = True
        return Snapshot(self._to_save(move.metadata), (move.message,))

    def _reports(self) -> Snapshot:
        self.has_unsent_reports = False
        return Snapshot(with_reports(self.last, self.metadata))

    def _to_save(self, metadata: BodyMetadata) -> bytes:
        """Encode the job for a save, without the sleeps that began in this attempt.

        Steps that run at the same time are saved after a sleep has begun. If the process died then, the next attempt
        would take the sleep for over, although the job has not gone back to its queue.
        """
        if metadata.sleeps and len(metadata.sleeps) > len(self._slept):
            metadata = msgspec.structs.replace(metadata, sleeps=self._slept)
        return self._with(metadata)

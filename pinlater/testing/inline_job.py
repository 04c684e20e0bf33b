"""A job that runs inline, as a server would store it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pinlater.client.waits import waits_text
from pinlater.model.body_metadata import OPEN_SAGA
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobInfo, NewJob
from pinlater.model.keys import JobKey
from pinlater.model.messages import Message, MessageKind, MessageWait, Parent
from pinlater.model.state import JobState
from pinlater.server.backends.unique_keys import KeyHolder
from pinlater.testing.attempts import Ending, Outcome


@dataclass(slots=True)
class InlineJob:
    """A job as a server would store it."""

    descriptor: str
    body: bytes
    attempts_allowed: int
    attempts_remaining: int
    run_after_ms: int
    status: str
    created_at_ms: int
    state: JobState = JobState.PENDING
    was_rescheduled: bool = False
    has_started: bool = False
    unique_until_ms: int = 0
    key: JobKey | None = None
    result: bytes | None = None
    is_cancelled: bool = False
    parent: Parent | None = None
    waits_for: Sequence[MessageWait] = ()

    @property
    def has_succeeded(self) -> bool:
        """Whether the job, or at least its first run, has succeeded."""
        return self.was_rescheduled or self.state is JobState.SUCCEEDED

    def key_holder(self, now_ms: int) -> KeyHolder | None:
        """Return this job as the holder of its unique key; None if the key is free at epoch milliseconds ``now_ms``."""
        is_finished, has_period = self.state.is_final, self.unique_until_ms > now_ms
        if is_finished and not has_period:
            return None
        address, is_started = JobDescriptor.parse(self.descriptor), self.has_started or is_finished
        return KeyHolder(
            address.priority, address.local_id, self.created_at_ms, is_started, has_period, is_finished=is_finished
        )

    def replace(self, job: NewJob, due_ms: int | None) -> None:
        """Take the content of a new job that has the same unique key.

        Args:
            job: the new job.
            due_ms: when this job is due from now on, epoch milliseconds; None: as before.
        """
        self.body, self.status = job.body, job.status
        self.attempts_allowed = self.attempts_remaining = job.attempts
        if due_ms is not None:
            self.run_after_ms = due_ms

    def record(self, outcome: Outcome) -> None:
        """Record the outcome of an attempt as a server would."""
        self.status += outcome.status
        if outcome.body is not None:
            self.body = outcome.body
        if outcome.run_after_ms is not None:
            self.run_after_ms = outcome.run_after_ms
        if outcome.next_attempts is not None:
            self.attempts_allowed = self.attempts_remaining = outcome.next_attempts
        elif outcome.ending is Ending.FAILED:
            self.attempts_remaining -= 1
        elif outcome.ending is Ending.DISCARDED:
            self.attempts_remaining = 0
        self.result, self.waits_for = outcome.result_bytes, outcome.waits_for
        self.was_rescheduled = outcome.next_attempts is not None and not outcome.undoes
        if outcome.ending is Ending.SUCCEEDED:
            self.state = JobState.SUCCEEDED
        elif self.was_rescheduled:
            self.state = JobState.PENDING
        else:
            goes_on = outcome.runs_again and (not self.is_cancelled or OPEN_SAGA in self.body)
            self.state = JobState.PENDING if goes_on else JobState.FAILED

    def info(self, *, include_body: bool, include_result: bool = False, body_bytes: int | None = None) -> JobInfo:
        """Return what a lookup returns."""
        return JobInfo(
            self.descriptor,
            self.state,
            self.attempts_allowed,
            self.attempts_remaining,
            self.status,
            self.created_at_ms,
            self.run_after_ms,
            self.created_at_ms,
            body=self.body[:body_bytes] if include_body else None,
            key=self.key,
            result=self.result if include_result else None,
            is_cancelled=self.is_cancelled and self.state is not JobState.SUCCEEDED,
            parent=self.parent,
            waits_for=self.waits_for,
        )

    def end_message(self) -> tuple[str, Message] | None:
        """Return the descriptor of the parent, and the message that this job has ended; None if it has no parent."""
        if self.parent is None:
            return None
        is_good = self.state is JobState.SUCCEEDED
        failure = MessageKind.CANCELLED if self.is_cancelled else MessageKind.FAILED
        kind = MessageKind.SUCCEEDED if is_good else failure
        payload = self.result or b"" if is_good else self.status.encode()
        return self.parent.descriptor, Message(self.parent.name, str(self.parent.position), payload, kind)

    @property
    def waits_text(self) -> str:
        """What it waits for, in words; empty if it does not wait."""
        return f"waits for {waits_text(self.waits_for)}" if self.waits_for else ""

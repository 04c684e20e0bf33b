"""Moves chosen jobs from one queue of a store to another, by a plan that either client runs."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from pinlater.client.batches import split_by_bytes
from pinlater.client.kept_results import kept_name, with_results
from pinlater.client.moved_jobs import LookupSizer, is_tied, with_unique_key
from pinlater.client.store_time import now_ms
from pinlater.errors import CallError, ServerError
from pinlater.model.jobs import JobInfo
from pinlater.model.messages import ReceivedMessage
from pinlater.model.state import JobState
from pinlater.protocol.operations import Call, Calls
from pinlater.protocol.repeating import always, never

HOLD_SECONDS = 10.0
"""How long a job waits in its new queue. By then it is known whether a worker claimed it in the old one."""

_MOVED_FROM = re.compile(r"^moved from (\w+:s[^\s:]+:p\d+:\d+)\n", re.MULTILINE | re.ASCII)
_MOST_SCANNED = 10_000
_PAGE_SIZE = 500


class _Origin(NamedTuple):
    """Identifies a job across all stores: a descriptor alone may belong to a job of another store as well."""

    descriptor: str
    created_at_ms: int | None

    @classmethod
    def of(cls, job: JobInfo) -> Self:
        return cls(job.descriptor, job.created_at_ms)

    @classmethod
    def before_move(cls, job: JobInfo) -> Self | None:
        """Return the identity of the original of a copy; None if the job is not a copy."""
        match = _MOVED_FROM.search(job.status)
        return cls(match[1], job.created_at_ms) if match else None


@dataclass(slots=True)
class Move:
    """Moves jobs to another queue of the same store; can be interrupted at any time and repeated.

    Each job is stored in the new queue with a delay, then deleted from the old one. It is deleted only if it is still
    in ``state``: if a worker has claimed it in the meantime, it stays, and its copy is deleted. So no job is lost, and
    none runs twice, unless a move was interrupted between the two steps and is not repeated within ``HOLD_SECONDS``. A
    repeated move finds its earlier copies: pending and running ones by unique key, failed ones by the line "moved from"
    in their status, among the latest 10,000.

    Jobs keep their attempts, times, statuses, priorities and keys, and get new descriptors. Jobs of an ordered key must
    be given in their order.

    Attributes:
        queue: queue of the jobs.
        to: target queue.
        state: PENDING or FAILED; jobs in any other state are skipped.
        attempts: attempts with which FAILED jobs become PENDING; None leaves them FAILED.
        moved: number of jobs moved so far.
        left: number of jobs skipped: in another state, deleted, with a unique key that is taken in ``to``, or tied to
            their descriptor, since they have called others or waited for events, or another job waits for them.

    Raises:
        ValueError: the two queues are the same, or the state is neither PENDING nor FAILED.
    """

    queue: str
    to: str
    state: JobState
    attempts: int | None = None
    moved: int = 0
    left: int = 0
    _lookups: LookupSizer = field(default_factory=LookupSizer)
    _failed_there: dict[_Origin, str] | None = None

    def __post_init__(self) -> None:
        if self.queue == self.to:
            raise ValueError(f"the jobs are in {self.to} already; name another queue to move them to")
        if self.state not in {JobState.PENDING, JobState.FAILED}:
            raise ValueError(f"only pending and failed jobs can be moved, not {self.state.name} ones")
        if self.attempts is not None and (self.attempts < 1 or self.state is not JobState.FAILED):
            raise ValueError("attempts must be at least 1, and are for failed jobs only")

    @property
    def state_there(self) -> JobState:
        """State of the jobs in the target queue."""
        return self.state if self.attempts is None else JobState.PENDING

    def steps(self, calls: Calls, descriptors: Sequence[str]) -> Generator[Call[Any], Any, int]:
        """Yield the calls that move jobs, receive their results, and return the number of moved jobs."""
        moved_before = self.moved
        for some in self._lookups.split(descriptors):
            found = yield calls.lookup(some, include_body=True)
            self._lookups.record(found.values())
            there = [found[name] for name in some if name in found and self._can_move(found[name])]
            jobs = []
            for job in there:
                jobs.append((yield from _whole(calls, job)))  # noqa: PERF401 - a comprehension cannot yield
            self.left += len(some) - len(jobs)
            for chunk in split_by_bytes(jobs):
                yield from self._move_chunk(calls, chunk)
        return self.moved - moved_before

    def _can_move(self, job: JobInfo) -> bool:
        return job.state is self.state and not is_tied(job)

    def _move_chunk(self, calls: Calls, jobs: list[JobInfo]) -> Generator[Call[Any], Any, None]:
        copies = yield from self._store(calls, jobs)
        deleted, refusal = yield from self._delete(calls, list(copies))
        if deleted < len(copies):
            there = yield calls.lookup(copies)
            if there:
                yield calls.delete_these(self.to, [copies[name] for name in there], self.state_there)
            deleted = len(copies) - len(there)
        self.moved += deleted
        self.left += len(jobs) - deleted
        if refusal is not None:
            raise refusal

    def _store(self, calls: Calls, jobs: list[JobInfo]) -> Generator[Call[Any], Any, dict[str, str]]:
        """Store copies; return descriptor -> descriptor of the copy, without jobs whose unique key is taken."""
        if self.state_there is JobState.FAILED and self._failed_there is None:
            self._failed_there = yield from self._find_failed(calls)
        known = self._failed_there or {}
        copies = {job.descriptor: known[found] for job in jobs if (found := _Origin.of(job)) in known}
        new = [job for job in jobs if job.descriptor not in copies]
        if new:
            is_keyed = self.state_there is JobState.PENDING
            due_ms = (yield from now_ms(calls)) + int(HOLD_SECONDS * 1000) if is_keyed else None
            call = calls.import_jobs(self.to, [self._copy(job, due_ms) for job in new])
            stored = yield replace(call, is_repeatable=always if is_keyed else never)
            copies |= {job.descriptor: name for job, name in zip(new, stored, strict=True)}
            if is_keyed:
                there = yield calls.lookup(copies.values())
                origins = {name: _Origin.before_move(job) for name, job in there.items()}
                for job in new:  # another job may have the key
                    if origins.get(copies[job.descriptor]) != _Origin.of(job):
                        del copies[job.descriptor]
        return copies

    def _delete(
        self, calls: Calls, descriptors: list[str]
    ) -> Generator[Call[Any], Any, tuple[int, ServerError | None]]:
        """Delete the originals; return how many at least were deleted, and the error if the server refused."""
        if not descriptors:
            return 0, None
        try:
            deleted: int = yield calls.delete_these(self.queue, descriptors, self.state)
        except CallError:  # the reply was lost; a lookup follows
            return 0, None
        except ServerError as error:  # likewise; copies of jobs that still exist must not run
            return 0, error
        return deleted, None

    def _find_failed(self, calls: Calls) -> Generator[Call[Any], Any, dict[_Origin, str]]:
        """Return the failed copies of earlier moves in the target queue."""
        found: dict[_Origin, str] = {}
        continuation = None
        for _ in range(_MOST_SCANNED // _PAGE_SIZE):
            page = yield calls.scan(self.to, JobState.FAILED, limit=_PAGE_SIZE, continuation=continuation)
            found |= {origin: info.descriptor for info in page.jobs if (origin := _Origin.before_move(info))}
            continuation = page.continuation
            if continuation is None:
                break
        return found

    def _copy(self, job: JobInfo, due_ms: int | None) -> JobInfo:
        """Return the copy of a job, not due before ``due_ms``."""
        copy = with_unique_key(job)._replace(
            state=self.state_there, status=f"moved from {job.descriptor}\n{_MOVED_FROM.sub('', job.status)}"
        )
        if due_ms is not None:
            copy = copy._replace(run_after_ms=max(job.run_after_ms or 0, due_ms))
        if self.attempts is not None:
            allowed = max(job.attempts_allowed, self.attempts)
            copy = copy._replace(attempts_allowed=allowed, attempts_remaining=self.attempts)
            copy = copy._replace(is_cancelled=False, failure_group=None)  # as for a job that is retried in its queue
        return copy


def _whole(calls: Calls, job: JobInfo) -> Generator[Call[Any], Any, JobInfo]:
    """Return a job with all results of its steps in its body."""
    name = kept_name(job)
    if name is None:
        return job
    messages: list[ReceivedMessage] = []
    while page := (yield calls.read_messages(job.descriptor, name, after=messages[-1].number if messages else 0)):
        messages += page
    return with_results(job, messages)

"""Moves chosen jobs from one queue of a store to another, by steps that either client runs."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, TypeVar

from pinlater.client.chunks import LookupSizer, split_into_chunks, with_unique_key
from pinlater.errors import CallError, PinLaterError, ServerError
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState
from pinlater.protocol.operations import Call, Calls

T = TypeVar("T")

HOLD_SECONDS = 10.0
"""How long a job waits in its new queue. By then it is known whether a worker claimed it in the old one."""

_MOVED_FROM = re.compile(r"^moved from (\w+:s[^\s:]+:p\d+:\d+)\n", re.MULTILINE | re.ASCII)
_MOST_SCANNED = 10_000
_PAGE_SIZE = 500


class _Origin(NamedTuple):
    """Identifies a job over all stores: a descriptor alone may belong to a job of another store as well."""

    descriptor: str
    created_at_ms: int | None

    @classmethod
    def of(cls, job: JobInfo) -> Self:
        return cls(job.descriptor, job.created_at_ms)

    @classmethod
    def before_move(cls, job: JobInfo) -> Self | None:
        """Return that of the job that this one is a copy of; None if it is no copy."""
        match = _MOVED_FROM.search(job.status)
        return cls(match[1], job.created_at_ms) if match else None


@dataclass(slots=True)
class Move:
    """Moves jobs to another queue of the same store; may be ended at any moment, and repeated.

    Each job is stored in the new queue, where no worker gets it yet, then deleted in the old one, then due. Deleting
    finds it only in the state that it was chosen in: if a worker has claimed it meanwhile, it stays where it is, and
    the copy goes. So none is lost, and none runs twice but when a move was ended between the two steps and is
    not repeated within ``HOLD_SECONDS``. A repetition knows its copies again: by a unique key those that wait or run,
    by a line of their status ("moved from", and where they were) those that have failed, of the latest 10,000.

    Attempts, times, statuses, priorities and unique keys come along; jobs get other descriptors.

    Attributes:
        queue: where the jobs are.
        to: the queue they are to be in.
        state: PENDING or FAILED; jobs that are in another state by then are left alone.
        attempts: FAILED jobs become PENDING, with so many attempts; None: they stay FAILED.
        moved: how many jobs were moved so far.
        left: how many were left alone: they have another state, are gone, or a job in ``to`` has their unique key.

    Raises:
        ValueError: the queues are the same one, or the state is another one.
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
            raise ValueError("attempts, at least 1, are what failed jobs get that are to be tried again")

    @property
    def state_there(self) -> JobState:
        """The state that the jobs have in their new queue."""
        return self.state if self.attempts is None else JobState.PENDING

    def steps(self, calls: Calls, descriptors: Sequence[str]) -> Generator[Call[Any], Any, int]:
        """Yield the calls that move these jobs, in this order; take their answers, return how many were moved."""
        moved_before = self.moved
        for some in self._lookups.split(descriptors):
            found = yield calls.lookup(some, include_body=True)
            self._lookups.record(found.values())
            jobs = [found[name] for name in some if name in found and found[name].state is self.state]
            self.left += len(some) - len(jobs)
            for chunk in split_into_chunks(jobs):
                yield from self._move_chunk(calls, chunk)
        return self.moved - moved_before

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
        """Store copies; return where they are. Where another job has the key of one, there is none."""
        if self.state_there is JobState.FAILED and self._failed_there is None:
            self._failed_there = yield from self._find_failed(calls)
        known = self._failed_there or {}
        copies = {job.descriptor: known[found] for job in jobs if (found := _Origin.of(job)) in known}
        new = [job for job in jobs if job.descriptor not in copies]
        if new:
            call = calls.import_jobs(self.to, map(self._copy, new))
            is_keyed = self.state_there is JobState.PENDING
            stored = yield replace(call, safe_to_repeat=is_keyed)
            copies |= {job.descriptor: name for job, name in zip(new, stored, strict=True)}
            if is_keyed:
                there = yield calls.lookup(copies.values())
                origins = {name: _Origin.before_move(job) for name, job in there.items()}
                for job in new:  # another one may have the key
                    if origins.get(copies[job.descriptor]) != _Origin.of(job):
                        del copies[job.descriptor]
        return copies

    def _delete(
        self, calls: Calls, descriptors: list[str]
    ) -> Generator[Call[Any], Any, tuple[int, ServerError | None]]:
        """Delete the originals; return how many, at least, and why not all, if the server could not."""
        if not descriptors:
            return 0, None
        try:
            deleted: int = yield calls.delete_these(self.queue, descriptors, self.state)
        except CallError:  # the answer was lost; a look at them will tell
            return 0, None
        except ServerError as error:  # likewise, and no copy of those that are still there is to run
            return 0, error
        return deleted, None

    def _find_failed(self, calls: Calls) -> Generator[Call[Any], Any, dict[_Origin, str]]:
        """Return the descriptors of what an earlier move has left in the new queue."""
        found: dict[_Origin, str] = {}
        continuation = None
        for _ in range(_MOST_SCANNED // _PAGE_SIZE):
            page = yield calls.scan(self.to, JobState.FAILED, limit=_PAGE_SIZE, continuation=continuation)
            found |= {origin: info.descriptor for info in page.jobs if (origin := _Origin.before_move(info))}
            continuation = page.continuation
            if continuation is None:
                break
        return found

    def _copy(self, job: JobInfo) -> JobInfo:
        copy = with_unique_key(job)._replace(
            state=self.state_there, status=f"moved from {job.descriptor}\n{_MOVED_FROM.sub('', job.status)}"
        )
        if self.state_there is JobState.PENDING:
            due_ms = int((time.time() + HOLD_SECONDS) * 1000)
            copy = copy._replace(run_after_ms=max(job.run_after_ms or 0, due_ms))
        if self.attempts is not None:
            allowed = max(job.attempts_allowed, self.attempts)
            copy = copy._replace(attempts_allowed=allowed, attempts_remaining=self.attempts)
        return copy


def run_steps(steps: Generator[Call[Any], Any, T], execute: Callable[[Call[Any]], Any]) -> T:
    """Execute the calls that ``steps`` yields; return what it returns."""
    advance: Callable[[], Call[Any]] = functools.partial(next, steps)
    while True:
        try:
            call = advance()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return] # a generator's own value
        try:
            advance = functools.partial(steps.send, execute(call))
        except PinLaterError as error:
            advance = functools.partial(steps.throw, error)


async def run_steps_async(steps: Generator[Call[Any], Any, T], execute: Callable[[Call[Any]], Awaitable[Any]]) -> T:
    """Do the same with an executor that is awaited."""
    advance: Callable[[], Call[Any]] = functools.partial(next, steps)
    while True:
        try:
            call = advance()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return] # as above
        try:
            advance = functools.partial(steps.send, await execute(call))
        except PinLaterError as error:
            advance = functools.partial(steps.throw, error)

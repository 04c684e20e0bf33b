"""Detection of job changes by polling, with a bounded number of calls."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pinlater.cli.batches import batches
from pinlater.errors import QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client
    from pinlater.model.jobs import JobInfo

FIRST_PAGE = 100
"""Jobs of each state that a poll reads first: those due latest."""

MOST_OF_A_STATE = 5000
"""New jobs of one state that a poll reads at most."""

MOST_FOLLOWED = 3000
"""Jobs of a queue that are followed until they end: running ones, then those due first."""

_MOST_KNOWN = 20_000
_AT_ONCE = 500
_COUNT_SECONDS = 5.0
_COUNT_REST = 20
"""Jobs are counted at most every five seconds, and for at most a twentieth of the time."""

_READ_COMPLETELY = frozenset({JobState.IN_PROGRESS})  # there are few, and they end next
_OPEN = frozenset({JobState.PENDING, JobState.IN_PROGRESS})
_PLACES = (
    (JobState.PENDING, False),
    (JobState.PENDING, True),
    (JobState.IN_PROGRESS, False),
    (JobState.IN_PROGRESS, True),
    (JobState.SUCCEEDED, False),
    (JobState.FAILED, False),
)
_COUNTED = [place for place in _PLACES if place != (JobState.IN_PROGRESS, True)]  # running jobs are counted together


class Change(NamedTuple):
    """A job whose state has changed since the last poll; ``before`` is None if the job was not known."""

    info: JobInfo
    before: JobState | None


class _Known(NamedTuple):
    """The known state of a job; the first two fields tell whether it has changed."""

    state: JobState
    attempts_remaining: int
    run_after_ms: int


@dataclass(slots=True)
class _QueueState:
    """State of one queue between polls.

    Attributes:
        jobs: descriptor -> known state; the most recently read come last.
        begun_ms: epoch milliseconds of the last change before the first poll.
        counted: number of all jobs and of ended jobs at the first poll.
        came: number of new jobs reported.
        ended: number of ended jobs reported.
        unseen: number of new and of ended jobs known to have been missed.
        count_again: earliest time of the next count, in monotonic seconds.
    """

    jobs: dict[str, _Known] = field(default_factory=dict)
    begun_ms: int = 0
    counted: tuple[int, int] | None = None
    came: int = 0
    ended: int = 0
    unseen: tuple[int, int] = (0, 0)
    count_again: float = 0.0


class ChangeTracker:
    """Polls queues for changes of jobs.

    New jobs are found by scanning the first pages of each state. Jobs that have not ended are looked up by descriptor
    until they have. The server's counts tell whether changes were missed.

    Args:
        client: client of the server.
        queues: queues to poll; empty for all.

    Attributes:
        unseen: queue -> minimum number of jobs that the last poll missed; 0 if unknown.
    """

    def __init__(self, client: Client, queues: Sequence[str]) -> None:
        self._client = client
        self._queues = queues
        self._states: dict[str, _QueueState] = {}
        self.unseen: dict[str, int] = {}

    def poll(self) -> Iterator[Change]:
        """Yield the changes since the last poll, queue by queue; the first poll yields none."""
        self.unseen = {}
        names = self._queues or sorted(self._client.queue_names())
        for queue in names:
            try:
                if queue in self._states:
                    yield from self._poll_queue(queue, self._states[queue])
                else:
                    self._states[queue] = self._start_queue(queue)
            except QueueNotFound:
                if self._queues:
                    raise

    def _start_queue(self, queue: str) -> _QueueState:
        tracked = _QueueState()
        for state, future in _PLACES:
            for info in self._client.scan(queue, state, future=future, limit=FIRST_PAGE).jobs:
                tracked.jobs[info.descriptor] = _known(info)
                tracked.begun_ms = max(tracked.begun_ms, info.updated_at_ms or 0)
        # Counted here after the scans, in later polls before them: jobs that arrive in between never count as missed.
        tracked.counted = self._count(queue, tracked)
        return tracked

    def _poll_queue(self, queue: str, tracked: _QueueState) -> Iterator[Change]:
        counted = self._count(queue, tracked) if time.monotonic() >= tracked.count_again else None
        found: dict[str, JobInfo] = {}
        for state, future in _PLACES:
            found |= {info.descriptor: info for info in self._newest(queue, state, tracked.jobs, future=future)}
        found |= self._lookup_open(tracked.jobs, found)
        for info in sorted(found.values(), key=lambda info: info.updated_at_ms or 0):
            before = tracked.jobs.pop(info.descriptor, None)
            tracked.jobs[info.descriptor] = after = _known(info)
            if _is_change(before, after) and not self._is_old(info, before, tracked):
                tracked.came += before is None
                tracked.ended += info.state not in _OPEN
                yield Change(info, None if before is None else before.state)
        for name in list(tracked.jobs)[:-_MOST_KNOWN]:
            del tracked.jobs[name]
        if counted is not None:
            self._count_unseen(queue, tracked, counted)

    def _newest(self, queue: str, state: JobState, known: dict[str, _Known], *, future: bool) -> Iterator[JobInfo]:
        """Yield the jobs of a state page by page, up to the first page with a known one; yield all running jobs."""
        continuation = None
        seen, limit = 0, FIRST_PAGE
        while True:
            page = self._client.scan(queue, state, future=future, limit=limit, continuation=continuation)
            yield from page.jobs
            seen += len(page.jobs)
            continuation = page.continuation
            has_old = any(info.descriptor in known and known[info.descriptor].state is state for info in page.jobs)
            if continuation is None or (has_old and state not in _READ_COMPLETELY):
                return
            if seen >= MOST_OF_A_STATE:
                self.unseen.setdefault(queue, 0)
                return
            limit = _AT_ONCE

    def _lookup_open(self, known: dict[str, _Known], found: dict[str, JobInfo]) -> dict[str, JobInfo]:
        open_ones = [name for name, one in known.items() if one.state in _OPEN and name not in found]
        if len(open_ones) > MOST_FOLLOWED:
            open_ones.sort(key=lambda name: _turn(name, known[name]))
        answers: dict[str, JobInfo] = {}
        for part in batches(open_ones[:MOST_FOLLOWED], _AT_ONCE):
            here = self._client.lookup(part)
            answers |= here
            for name in part:
                if name not in here:  # deleted
                    del known[name]
        return answers

    @staticmethod
    def _is_old(info: JobInfo, before: _Known | None, tracked: _QueueState) -> bool:
        """Return whether a job ended before the first poll, and shows up now only because other jobs are gone."""
        return before is None and info.state not in _OPEN and (info.updated_at_ms or 0) <= tracked.begun_ms

    def _count(self, queue: str, tracked: _QueueState) -> tuple[int, int]:
        started = time.monotonic()
        counts = [self._client.count(queue, state, future=future) for state, future in _COUNTED]
        took = time.monotonic() - started
        tracked.count_again = started + max(_COUNT_SECONDS, _COUNT_REST * took)
        return sum(counts), sum(counts[-2:])

    def _count_unseen(self, queue: str, tracked: _QueueState, counted: tuple[int, int]) -> None:
        """Compare counts with reported changes. Jobs removed in the meantime hide as many missed ones."""
        assert tracked.counted is not None
        reported = tracked.came, tracked.ended
        missed = tuple(now - before - one for now, before, one in zip(counted, tracked.counted, reported, strict=True))
        more = max(now - before for now, before in zip(missed, tracked.unseen, strict=True))
        if more > 0:
            self.unseen[queue] = more
        tracked.unseen = max(missed[0], tracked.unseen[0]), max(missed[1], tracked.unseen[1])


def _known(info: JobInfo) -> _Known:
    return _Known(info.state, info.attempts_remaining, info.run_after_ms or 0)


def _is_change(before: _Known | None, after: _Known) -> bool:
    if before is None or before.state != after.state:
        return True
    return before.attempts_remaining != after.attempts_remaining and after.state != JobState.IN_PROGRESS


def _turn(name: str, known: _Known) -> tuple[bool, int, int]:
    """Return the sort key: running jobs first, then pending ones in the order they are handed out."""
    return known.state is JobState.PENDING, JobDescriptor.parse(name).priority, known.run_after_ms

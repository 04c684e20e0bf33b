"""Which jobs changed between two looks, found out with a bounded number of calls."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pinlater.cli.bulk_action import batches
from pinlater.errors import QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client
    from pinlater.model.records import JobInfo

FIRST_PAGE = 100
"""Jobs of each state that a look at a queue begins with: those that are, or were, due latest."""

MOST_OF_A_STATE = 5000
"""New jobs of one state that a look goes through."""

MOST_FOLLOWED = 3000
"""Jobs of a queue whose end is waited for: those that run, then those that are due first."""

_MOST_KNOWN = 20_000
_AT_ONCE = 500
_COUNT_SECONDS = 5.0
_COUNT_REST = 20
"""Counts are asked for every five seconds, at most, and no more than a twentieth of the time."""

_ALL_READ = frozenset({JobState.IN_PROGRESS})  # few, and those that end next
_OPEN = frozenset({JobState.PENDING, JobState.IN_PROGRESS})
_PLACES = (
    (JobState.PENDING, False),
    (JobState.PENDING, True),
    (JobState.IN_PROGRESS, False),
    (JobState.IN_PROGRESS, True),
    (JobState.SUCCEEDED, False),
    (JobState.FAILED, False),
)
_COUNTED = [place for place in _PLACES if place != (JobState.IN_PROGRESS, True)]  # counts of these know no future


class Change(NamedTuple):
    """A job that has another state than at the last look; ``before`` is None if it was not known."""

    info: JobInfo
    before: JobState | None


class _Known(NamedTuple):
    """What is remembered of a job; the first two tell whether it has changed."""

    state: JobState
    attempts_remaining: int
    run_after_ms: int


@dataclass(slots=True)
class _Memory:
    """What is known of one queue.

    Attributes:
        jobs: by descriptor; those that changed latest stand last.
        begun_ms: when the last of the jobs changed that were there from the beginning.
        counted: jobs in all, and those that have ended, at the beginning.
        came: jobs that were told of without having been known.
        ended: ends that were told of.
        unseen: how many have come, and ended, without having been told of, as far as that is known.
        count_again: monotonic seconds.
    """

    jobs: dict[str, _Known] = field(default_factory=dict)
    begun_ms: int = 0
    counted: tuple[int, int] | None = None
    came: int = 0
    ended: int = 0
    unseen: tuple[int, int] = (0, 0)
    count_again: float = 0.0


class Changes:
    """Looks at queues again and again.

    New jobs are found by the first pages of each state. Those that have not ended are asked for by name until they
    have. The server's counts tell whether more jobs came, or ended, than were found that way.

    Args:
        client: to ask with.
        queues: where to look; none is all.

    Attributes:
        unseen: queue -> how many jobs the last look must have missed, at least; 0 if that is not known.
    """

    def __init__(self, client: Client, queues: Sequence[str]) -> None:
        self._client = client
        self._queues = queues
        self._memories: dict[str, _Memory] = {}
        self.unseen: dict[str, int] = {}

    def look(self) -> Iterator[Change]:
        """Yield what has changed since the last look, queue by queue; at the first one, nothing has."""
        self.unseen = {}
        names = self._queues or sorted(self._client.queue_names())
        for queue in names:
            try:
                if queue in self._memories:
                    yield from self._look_again(queue, self._memories[queue])
                else:
                    self._memories[queue] = self._first_look(queue)
            except QueueNotFound:
                if self._queues:
                    raise

    def _first_look(self, queue: str) -> _Memory:
        memory = _Memory()
        for state, future in _PLACES:
            for info in self._client.scan(queue, state, future=future, limit=FIRST_PAGE).jobs:
                memory.jobs[info.descriptor] = _known(info)
                memory.begun_ms = max(memory.begun_ms, info.updated_at_ms or 0)
        # After the scans, and later counts before them: what comes in between is found, but not missed.
        memory.counted = self._count(queue, memory)
        return memory

    def _look_again(self, queue: str, memory: _Memory) -> Iterator[Change]:
        counted = self._count(queue, memory) if time.monotonic() >= memory.count_again else None
        found: dict[str, JobInfo] = {}
        for state, future in _PLACES:
            found |= {info.descriptor: info for info in self._newest(queue, state, memory.jobs, future=future)}
        found |= self._asked_by_name(memory.jobs, found)
        for info in sorted(found.values(), key=lambda info: info.updated_at_ms or 0):
            before = memory.jobs.pop(info.descriptor, None)
            memory.jobs[info.descriptor] = after = _known(info)
            if _is_change(before, after) and not self._is_old(info, before, memory):
                memory.came += before is None
                memory.ended += info.state not in _OPEN
                yield Change(info, None if before is None else before.state)
        for name in list(memory.jobs)[:-_MOST_KNOWN]:
            del memory.jobs[name]
        if counted is not None:
            self._note_unseen(queue, memory, counted)

    def _newest(self, queue: str, state: JobState, known: dict[str, _Known], *, future: bool) -> Iterator[JobInfo]:
        """Yield jobs of a state page by page, as long as all have come into it; of those that run, all."""
        continuation = None
        seen, limit = 0, FIRST_PAGE
        while True:
            page = self._client.scan(queue, state, future=future, limit=limit, continuation=continuation)
            yield from page.jobs
            seen += len(page.jobs)
            continuation = page.continuation
            has_old = any(info.descriptor in known and known[info.descriptor].state is state for info in page.jobs)
            if continuation is None or (has_old and state not in _ALL_READ):
                return
            if seen >= MOST_OF_A_STATE:
                self.unseen.setdefault(queue, 0)
                return
            limit = _AT_ONCE

    def _asked_by_name(self, known: dict[str, _Known], found: dict[str, JobInfo]) -> dict[str, JobInfo]:
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
    def _is_old(info: JobInfo, before: _Known | None, memory: _Memory) -> bool:
        """Whether a job had ended before the beginning, and shows only now that others have gone."""
        return before is None and info.state not in _OPEN and (info.updated_at_ms or 0) <= memory.begun_ms

    def _count(self, queue: str, memory: _Memory) -> tuple[int, int]:
        started = time.monotonic()
        counts = [self._client.count(queue, state, future=future) for state, future in _COUNTED]
        took = time.monotonic() - started
        memory.count_again = started + max(_COUNT_SECONDS, _COUNT_REST * took)
        return sum(counts), sum(counts[-2:])

    def _note_unseen(self, queue: str, memory: _Memory, counted: tuple[int, int]) -> None:
        """Compare counts with what was told. Jobs that were collected or deleted meanwhile hide as many unseen ones."""
        assert memory.counted is not None
        told = memory.came, memory.ended
        missed = tuple(now - before - one for now, before, one in zip(counted, memory.counted, told, strict=True))
        more = max(now - before for now, before in zip(missed, memory.unseen, strict=True))
        if more > 0:
            self.unseen[queue] = more
        memory.unseen = max(missed[0], memory.unseen[0]), max(missed[1], memory.unseen[1])


def _known(info: JobInfo) -> _Known:
    return _Known(info.state, info.attempts_remaining, info.run_after_ms or 0)


def _is_change(before: _Known | None, after: _Known) -> bool:
    if before is None or before.state != after.state:
        return True
    return before.attempts_remaining != after.attempts_remaining and after.state != JobState.IN_PROGRESS


def _turn(name: str, known: _Known) -> tuple[bool, int, int]:
    """Return what to sort by: those that run, then those that are handed out first."""
    return known.state is JobState.PENDING, JobDescriptor.parse(name).priority, known.run_after_ms

"""Scan of many queues up to a number of jobs, with a fair share for each queue."""

from __future__ import annotations

import random
import time
from collections import defaultdict, deque
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pinlater.errors import QueueNotFound
from pinlater.model.jobs import JobInfo, Page
from pinlater.model.state import JobState
from pinlater.protocol.operations import Call, Calls

_MOST_A_PAGE = 200
_LEAST_A_PAGE = 5
_SECONDS = 5.0
"""Time limit of all calls together; with very many queues, some are left out."""


class Part(NamedTuple):
    """Jobs of a queue in one state.

    Attributes:
        queue: the queue.
        state: their state.
        is_future: of PENDING jobs, those not due yet instead of due ones.
        oldest_first: whether to start with jobs due earliest; servers of older versions start with those due latest.
    """

    queue: str
    state: JobState
    is_future: bool = False
    oldest_first: bool = False


@dataclass(slots=True)
class FairScan:
    """Jobs of several queues.

    Attributes:
        jobs: queue -> its jobs, those due latest first; without queues that have none.
        left_out: queues that were not read completely, or not at all.
    """

    jobs: dict[str, list[JobInfo]] = field(default_factory=lambda: defaultdict(list))
    left_out: set[str] = field(default_factory=set)

    @property
    def scanned(self) -> int:
        """Number of jobs read."""
        return sum(map(len, self.jobs.values()))


def fair_scan(
    calls: Calls, parts: Iterable[Part], limit: int, seconds: float = _SECONDS
) -> Generator[Call[Any], Any, FairScan]:
    """Yield the calls that scan several queues, receive their results, and return the jobs.

    In each round, the same number of jobs is read from every queue that may have more, until there are ``limit``. If
    the time is too short for all queues, random ones are left out.

    Args:
        calls: builder of the calls.
        parts: jobs to read.
        limit: maximum number of jobs, except that a few of each part are always read.
        seconds: time limit of all calls together.
    """
    found, left, deadline = FairScan(), limit, time.monotonic() + seconds
    chosen = list(parts)
    random.shuffle(chosen)
    waiting: deque[tuple[Part, str | None]] = deque((part, None) for part in chosen)
    while waiting and left > 0:
        size = min(max(left // len(waiting), _LEAST_A_PAGE), _MOST_A_PAGE)
        for _ in range(len(waiting)):
            if time.monotonic() >= deadline:
                left = 0
                break
            part, continuation = waiting.popleft()
            try:
                page = yield _page_of(calls, part, size, continuation)
            except QueueNotFound:  # deleted in the meantime
                continue
            if page.jobs:
                found.jobs[part.queue] += page.jobs
            left -= len(page.jobs)
            if page.continuation is not None:
                waiting.append((part, page.continuation))
    found.left_out = {part.queue for part, _ in waiting}
    return found


def _page_of(calls: Calls, part: Part, size: int, continuation: str | None) -> Call[Page]:
    return calls.scan(
        part.queue,
        part.state,
        future=part.is_future,
        limit=size,
        continuation=continuation,
        oldest_first=part.oldest_first,
    )

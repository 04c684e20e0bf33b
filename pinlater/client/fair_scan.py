"""Jobs of many queues within a bound: each queue has its turn, so that a deep one does not hide the others."""

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
"""For all calls together: with very many queues, some have to wait for another scan."""


class Part(NamedTuple):
    """Jobs of a queue in one state; ``is_future``: of PENDING ones, those not due yet instead of those due."""

    queue: str
    state: JobState
    is_future: bool = False


@dataclass(slots=True)
class FairScan:
    """What was found.

    Attributes:
        jobs: by queue, those due latest first; queues without any are left out.
        left_out: queues that have others, which were not looked at, or were not looked at themselves.
    """

    jobs: dict[str, list[JobInfo]] = field(default_factory=lambda: defaultdict(list))
    left_out: set[str] = field(default_factory=set)

    @property
    def scanned(self) -> int:
        """How many jobs were looked at."""
        return sum(map(len, self.jobs.values()))


def fair_scan(
    calls: Calls, parts: Iterable[Part], limit: int, seconds: float = _SECONDS
) -> Generator[Call[Any], Any, FairScan]:
    """Yield the calls of a scan of several queues, and take their answers; return what was found.

    In each round every queue that may have more gives the same number of jobs, until there are ``limit``. Should there
    be no time for all queues, it is by chance which are left out.

    Args:
        calls: builds the calls.
        parts: what to look at.
        limit: most jobs in all; but of each part there may be some.
        seconds: for all calls together.
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
            except QueueNotFound:  # deleted since
                continue
            if page.jobs:
                found.jobs[part.queue] += page.jobs
            left -= len(page.jobs)
            if page.continuation is not None:
                waiting.append((part, page.continuation))
    found.left_out = {part.queue for part, _ in waiting}
    return found


def _page_of(calls: Calls, part: Part, size: int, continuation: str | None) -> Call[Page]:
    return calls.scan(part.queue, part.state, future=part.is_future, limit=size, continuation=continuation)

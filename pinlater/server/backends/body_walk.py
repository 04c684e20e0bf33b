"""Walks over jobs whose bodies are searched: all priorities in one order, and no longer than one call may take.

A walk that ends early returns what it has found, how many jobs it has looked at, and where to continue. So a search of
any number of bodies takes several calls, each with a bounded number of statements.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from pinlater.model.jobs import JobRecord, Position, RecordPage
from pinlater.model.walked_jobs import WalkedJobs
from pinlater.server.backends.body_pattern import BodyPattern

MAX_PAGES = 200
"""Most pages of jobs that one walk reads."""

FIRST_PAGE_JOBS, NEXT_PAGE_JOBS = 50, 500
"""Bodies may be large: the first page of a priority has few, and so has each page after one whose bodies are not small.
"""

_SMALL_PAGE_BYTES = 2000
"""Average bytes per body up to which the next page may be long."""

T = TypeVar("T")


class SearchedJob(NamedTuple, Generic[T]):
    """A job whose body is to be searched.

    Attributes:
        position: its place in the order.
        body: its body; None if the job is gone by now.
        row: the row that its record is made from.
    """

    position: Position
    body: bytes | None
    row: T


@dataclass(slots=True)
class _PrioritySearch(Generic[T]):
    """The search of one priority.

    Attributes:
        position: position of the last job that was read.
        ahead: jobs that were read but not walked over yet: position and row, None if the body does not match.
        is_read: whether all jobs were read.
        is_small: whether the bodies of the last page were small.
    """

    position: Position | None
    ahead: deque[tuple[Position, T | None]] = field(default_factory=deque)
    is_read: bool = False
    is_small: bool = False


class BodyWalk(Generic[T]):
    """One walk. Its owner adds the pages that it wants, until it wants none. Use it in a thread: it searches bodies.

    It ends when the pattern's time is up, but only after it has looked at a job of each priority: every walk advances.

    Args:
        pattern: what bodies have to match.
        priorities: priorities of the jobs.
        limit: the walk ends when this many are found.
        start: position behind which it begins; None: at the beginning.
        is_oldest_first: whether the earliest run_after comes first, instead of the latest.
    """

    def __init__(
        self,
        pattern: BodyPattern,
        priorities: Iterable[int],
        limit: int,
        start: Position | None,
        is_oldest_first: bool,
    ) -> None:
        self._pattern = pattern
        self._limit = limit
        self._sign = 1 if is_oldest_first else -1
        self._searches = {priority: _PrioritySearch[T](start) for priority in priorities}
        self._found: list[T] = []
        self._walked = WalkedJobs(is_oldest_first=is_oldest_first)
        self._last: Position | None = None
        self._pages = 0

    @property
    def wanted(self) -> int | None:
        """The priority whose next page to add; None: the walk is over."""
        is_enough = self._pages >= MAX_PAGES or self._pattern.is_late
        if len(self._found) >= self._limit or (is_enough and self._last is not None):
            return None
        return next((one for one, search in self._searches.items() if not search.is_read and not search.ahead), None)

    def position(self, priority: int) -> Position | None:
        """Return the position behind which the next page of a priority begins; None: at the beginning."""
        return self._searches[priority].position

    def page_size(self, priority: int) -> int:
        """Return how many jobs to read for the next page of a priority."""
        return NEXT_PAGE_JOBS if self._searches[priority].is_small else FIRST_PAGE_JOBS

    def add(self, priority: int, jobs: Iterable[SearchedJob[T]], *, is_last: bool) -> None:
        """Add the next page of a priority and search its bodies, one by one.

        Raises:
            UnknownError: the pattern is too large for one of them.
        """
        search, count, body_bytes = self._searches[priority], 0, 0
        self._pages += 1
        for job in jobs:
            if self._pattern.is_late and (count or self._last is not None):
                break
            is_match = job.body is not None and self._pattern.occurs_in(job.body)
            search.ahead.append((job.position, job.row if is_match else None))
            search.position = job.position
            count, body_bytes = count + 1, body_bytes + len(job.body or b"")
        else:
            search.is_read = is_last
        search.is_small = body_bytes <= _SMALL_PAGE_BYTES * count
        self._advance()

    def _advance(self) -> None:
        """Walk over the jobs read so far, as long as it is known which one is next in the order."""
        while len(self._found) < self._limit and all(one.ahead or one.is_read for one in self._searches.values()):
            search = min((one for one in self._searches.values() if one.ahead), key=self._rank, default=None)
            if search is None:
                return
            self._last, row = search.ahead.popleft()
            self._walked.add(self._last.run_after_ms, self._last.local_id)
            if row is not None:
                self._found.append(row)

    def _rank(self, search: _PrioritySearch[T]) -> tuple[int, int]:
        position = search.ahead[0][0]
        return self._sign * position.run_after_ms, self._sign * position.local_id

    def page(self, record: Callable[[T], JobRecord]) -> RecordPage:
        """Return the jobs found, as records made by ``record``, and how far the walk got."""
        is_whole = all(one.is_read and not one.ahead for one in self._searches.values())
        end, walked = None if is_whole else self._last, self._walked
        return RecordPage([record(row) for row in self._found], end, len(walked), walked)

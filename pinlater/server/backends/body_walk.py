"""Walks over jobs whose bodies are searched: all priorities in one order, and no longer than one call may take.

A walk that ends early has found what it has found, knows how many jobs it has looked at, and where to go on. So a
search of any number of bodies is a number of calls, each with a bounded number of statements.
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
"""Pages of jobs that one walk reads."""

FIRST_PAGE_JOBS, NEXT_PAGE_JOBS = 50, 500
"""Bodies may be large: the first page of a priority has few, and so have those after it unless its bodies are small."""

_SMALL_PAGE_BYTES = 2000
"""Bytes for each job of a page that let the next one be long."""

T = TypeVar("T")


class SearchedJob(NamedTuple, Generic[T]):
    """A job that was read to be searched.

    Attributes:
        position: its place in the order.
        body: its body; None if it has gone meanwhile.
        row: what its record is made of.
    """

    position: Position
    body: bytes | None
    row: T


@dataclass(slots=True)
class _PrioritySearch(Generic[T]):
    """What was read of one priority and is not yet walked over: place and row, None if the body does not match.

    Attributes:
        position: of the last job that was read.
        is_read: whether there are no more jobs.
        is_small: whether the bodies of the last page were small.
    """

    position: Position | None
    ahead: deque[tuple[Position, T | None]] = field(default_factory=deque)
    is_read: bool = False
    is_small: bool = False


class BodyWalk(Generic[T]):
    """One walk. Its owner reads the pages that it wants, until it wants none. Used in threads: bodies are searched.

    The time of the pattern ends it, but not before it has looked at a job of each priority: each walk gets on.

    Args:
        pattern: that bodies match.
        priorities: of the jobs.
        limit: ends the walk when so many are found.
        start: position behind which it begins; None: at the beginning.
        is_oldest_first: the earliest run_after first, instead of the latest.
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
        """The priority whose next page is to be added; None: the walk is over."""
        is_enough = self._pages >= MAX_PAGES or self._pattern.is_late
        if len(self._found) >= self._limit or (is_enough and self._last is not None):
            return None
        return next((one for one, search in self._searches.items() if not search.is_read and not search.ahead), None)

    def position(self, priority: int) -> Position | None:
        """Return the position behind which the next page of a priority begins; None: at the beginning."""
        return self._searches[priority].position

    def page_size(self, priority: int) -> int:
        """Return how many jobs the next page of a priority has."""
        return NEXT_PAGE_JOBS if self._searches[priority].is_small else FIRST_PAGE_JOBS

    def add(self, priority: int, jobs: Iterable[SearchedJob[T]], *, is_last: bool) -> None:
        """Search the bodies of the page of a priority, one by one.

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
        """Walk over what is read, as far as the next job in the order is known."""
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
        """Return what was found, made into records by ``record``, and how far the walk came."""
        is_whole = all(one.is_read and not one.ahead for one in self._searches.values())
        end, walked = None if is_whole else self._last, self._walked
        return RecordPage([record(row) for row in self._found], end, len(walked), walked)

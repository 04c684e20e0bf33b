"""Jobs of a bulk action: listed one by one, or all that match a query when the action runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.dashboard.job_query import JobQuery

MOST_MATCHING = 1_000_000
"""Jobs that match; the remaining ones take another action."""

_BATCH_SIZE = 100
_PAGE_SIZE = 500


class ListedJobs(NamedTuple):
    """Jobs by descriptor.

    Attributes:
        by_queue: queue -> descriptors.
    """

    by_queue: Mapping[str, Sequence[str]]

    @property
    def total(self) -> int:
        """Number of jobs."""
        return sum(len(descriptors) for descriptors in self.by_queue.values())

    @property
    def queues(self) -> Sequence[str]:
        """Queues of the jobs."""
        return list(self.by_queue)

    async def batches(self, _: AsyncVerbs) -> AsyncIterator[tuple[str, Sequence[str]]]:
        """Yield queue and descriptors, batch by batch."""
        for queue, descriptors in self.by_queue.items():
            for start in range(0, len(descriptors), _BATCH_SIZE):
                yield queue, descriptors[start : start + _BATCH_SIZE]


class MatchingJobs(NamedTuple):
    """All jobs that match a query when they are read, page by page.

    They are read in the order of the list, the latest due first: jobs that the action itself puts back into the state,
    such as those that fail again, are due later than the pages that follow, so they are not read a second time.

    Attributes:
        query: the query.
        total: number of jobs when the action was planned, as far as the server counts; None if it could not count.
        in_order: whether they are read in the order in which they are due, which jobs of an ordered key have to keep
            when they are moved.
    """

    query: JobQuery
    total: int | None
    in_order: bool = False

    @property
    def queues(self) -> Sequence[str]:
        """Queues of the jobs."""
        return [self.query.queue]

    async def batches(self, client: AsyncVerbs) -> AsyncIterator[tuple[str, Sequence[str]]]:
        """Yield queue and descriptors, batch by batch.

        Raises:
            PinLaterError: the server cannot read on, such as a search that takes too long.
        """
        query, continuation = self.query, None
        for _ in range(MOST_MATCHING // _PAGE_SIZE):
            page = await client.scan(
                query.queue,
                query.display_state.state,
                limit=_PAGE_SIZE,
                continuation=continuation,
                oldest_first=self.in_order,
                **query.filters,
            )
            names = [info.descriptor for info in page.jobs]
            for start in range(0, len(names), _BATCH_SIZE):
                yield query.queue, names[start : start + _BATCH_SIZE]
            continuation = page.continuation
            if continuation is None:
                return

"""Jobs of a bulk action: listed ones, or all that match a query when the action runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.dashboard.job_query import JobQuery

MOST_MATCHING = 1_000_000
"""Most jobs that one action reads; the remaining ones need another action."""

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

    They are read latest due first. So jobs that return to the state because of the action, such as those that fail
    again, are due later than the remaining pages, and are not read a second time.

    Attributes:
        query: the query.
        total: number of jobs when the action was planned, up to the server's count limit; None if unknown.
        in_order: whether they are read earliest due first instead, since moved jobs of an ordered key have to keep
            their order.
    """

    query: JobQuery
    total: int | None
    in_order: bool

    @property
    def queues(self) -> Sequence[str]:
        """Queues of the jobs."""
        return [self.query.queue]

    async def batches(self, client: AsyncVerbs) -> AsyncIterator[tuple[str, Sequence[str]]]:
        """Yield queue and descriptors, batch by batch.

        Raises:
            PinLaterError: the server cannot go on, for instance because a search takes too long.
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

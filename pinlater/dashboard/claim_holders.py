"""Holders of running jobs, by their claims: worker processes and other clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.fair_scan import FairScan
from pinlater.dashboard.figures import DEQUEUED, STATE_GAUGES
from pinlater.dashboard.first_seen import ClaimHolder, FirstSeen, parse_holder
from pinlater.dashboard.history import History
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState

MOST_JOBS = 2000
"""Running jobs read for one page."""


class JobClaim(NamedTuple):
    """A running job.

    Attributes:
        queue: its queue.
        descriptor: its descriptor.
        since_ms: epoch milliseconds of its start, an upper bound unless ``is_exact``; None if unknown.
        is_exact: whether its worker has reported the start.
        info: the job as stored; None if it was not among the claims that were read.
    """

    queue: str
    descriptor: str
    since_ms: int | None
    is_exact: bool = False
    info: JobInfo | None = None


@dataclass(slots=True)
class HolderClaims:
    """The running jobs of one holder: a worker process or another client.

    Attributes:
        holder: the holder.
        jobs: its jobs.
    """

    holder: ClaimHolder
    jobs: list[JobClaim] = field(default_factory=list)


class ClaimScan(NamedTuple):
    """Claims by holder; ``has_more`` says that some running jobs were not read."""

    by_holder: dict[ClaimHolder, HolderClaims]
    scanned: int
    has_more: bool


class ClaimDirectory:
    """Finds the running jobs of queues.

    If there are many queues, most have none. So after the first time, only queues that may have some are read: those
    that had some before, have handed out jobs since, or have running jobs according to the metrics.

    Args:
        client: client of the server.
        history: source of the metrics.
        first_seen: when claims were first seen.
    """

    def __init__(self, client: AsyncVerbs, history: History, first_seen: FirstSeen) -> None:
        self._client = client
        self._history = history
        self._first_seen = first_seen
        self._dequeued: dict[str, int] | None = None  # counters at the last read of all queues
        self._busy: set[str] = set()

    async def find(self, queue: str = "") -> ClaimScan:
        """Read the claims of the running jobs of a queue, or of all.

        Raises:
            PinLaterError: the server does not answer.
        """
        if queue:
            return self._by_holder(await self._scan([queue]))
        dequeued = self._history.by_queue(DEQUEUED)
        scan = await self._scan([name for name in await self._client.queue_names() if self._may_run(name, dequeued)])
        self._dequeued, self._busy = dequeued, scan.jobs.keys() | scan.left_out
        return self._by_holder(scan)

    def _may_run(self, queue: str, dequeued: Mapping[str, int]) -> bool:
        if self._dequeued is None or queue in self._busy or dequeued.get(queue) != self._dequeued.get(queue):
            return True
        return self._history.level(STATE_GAUGES["running"], queue) != 0  # None: unknown, so it may

    async def _scan(self, queues: Iterable[str]) -> FairScan:
        return await self._client.scan_fairly(queues, JobState.IN_PROGRESS, limit=MOST_JOBS)

    def _by_holder(self, scan: FairScan) -> ClaimScan:
        by_holder: dict[ClaimHolder, HolderClaims] = {}
        for queue, jobs in scan.jobs.items():
            for info in jobs:
                holder = _process_of(parse_holder(info.claim or ""))
                held = by_holder.setdefault(holder, HolderClaims(holder))
                held.jobs.append(JobClaim(queue, info.descriptor, self._first_seen.since_ms(info), info=info))
        return ClaimScan(by_holder, scan.scanned, bool(scan.left_out))


def _process_of(holder: ClaimHolder) -> ClaimHolder:
    """Drop the number of the dequeue from the source, which differs for each dequeue of a process."""
    return holder._replace(source=holder.source.rpartition(".")[0]) if holder.host else holder

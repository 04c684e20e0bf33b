"""Holders of running jobs, by their claims: worker processes and other clients."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.dashboard.first_seen import ClaimHolder, FirstSeen, parse_holder
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState

MOST_JOBS = 2000
"""Running jobs read for one page."""


class JobClaim(NamedTuple):
    """A running job.

    Attributes:
        queue: its queue.
        descriptor: its descriptor.
        since_ms: epoch milliseconds of its start, or an upper bound unless ``is_exact``; None if unknown.
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
    """Claims by holder; ``has_more`` tells that not all running jobs were read."""

    by_holder: dict[ClaimHolder, HolderClaims]
    scanned: int
    has_more: bool


async def scan_claims(client: AsyncVerbs, first_seen: FirstSeen, queues: Iterable[str]) -> ClaimScan:
    """Read the claims of the running jobs of some queues.

    Raises:
        PinLaterError: the server does not answer.
    """
    scan = await client.scan_fairly(queues, JobState.IN_PROGRESS, limit=MOST_JOBS)
    by_holder: dict[ClaimHolder, HolderClaims] = {}
    for queue, jobs in scan.jobs.items():
        for info in jobs:
            holder = _process_of(parse_holder(info.claim or ""))
            held = by_holder.setdefault(holder, HolderClaims(holder))
            held.jobs.append(JobClaim(queue, info.descriptor, first_seen.since_ms(info), info=info))
    return ClaimScan(by_holder, scan.scanned, bool(scan.left_out))


def _process_of(holder: ClaimHolder) -> ClaimHolder:
    """Drop the number of the dequeue, of which one process has many."""
    return holder._replace(source=holder.source.rpartition(".")[0]) if holder.host else holder

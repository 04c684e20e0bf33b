"""Who holds running jobs, by their claims: processes of workers, and other claimants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.dashboard.first_seen import Holder, Sightings, holder_of
from pinlater.model.records import JobInfo
from pinlater.model.state import JobState

MOST_JOBS = 2000
"""Running jobs looked at for one page."""


class Running(NamedTuple):
    """A job that runs.

    Attributes:
        queue: its queue.
        descriptor: its address.
        since_ms: since when, epoch milliseconds: at the latest, unless ``is_exact``; None if nobody knows.
        is_exact: a worker has said so.
        info: what the store knows of it; None if it was not among the claims that were looked at.
    """

    queue: str
    descriptor: str
    since_ms: int | None
    is_exact: bool = False
    info: JobInfo | None = None


@dataclass(slots=True)
class Crew:
    """One process of a worker, or another claimant.

    Attributes:
        holder: who.
        jobs: what it holds.
    """

    holder: Holder
    jobs: list[Running] = field(default_factory=list)


class Claims(NamedTuple):
    """What was found; ``has_more`` if not all running jobs were looked at."""

    crews: dict[Holder, Crew]
    scanned: int
    has_more: bool


async def claims_of(client: AsyncVerbs, sightings: Sightings, queues: Iterable[str]) -> Claims:
    """Look at the running jobs of some queues.

    Raises:
        PinLaterError: the server does not answer.
    """
    scan = await client.scan_fairly(queues, JobState.IN_PROGRESS, limit=MOST_JOBS)
    crews: dict[Holder, Crew] = {}
    for queue, jobs in scan.jobs.items():
        for info in jobs:
            holder = _whole(holder_of(info.claim or ""))
            crew = crews.setdefault(holder, Crew(holder))
            crew.jobs.append(Running(queue, info.descriptor, sightings.since_ms(info), info=info))
    return Claims(crews, scan.scanned, bool(scan.left_out))


def _whole(holder: Holder) -> Holder:
    """Leave the number of the dequeue out: one process has many."""
    return holder._replace(source=holder.source.rpartition(".")[0]) if holder.host else holder

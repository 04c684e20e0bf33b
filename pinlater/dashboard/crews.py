"""Who works: hosts and their processes, by the claims of the jobs that run now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.records import JobInfo
from pinlater.dashboard.holders import Holder, Sightings, holder_of
from pinlater.errors import QueueNotFound
from pinlater.state import JobState

MOST_JOBS = 2000
"""Running jobs looked at for one page."""

MOST_SHOWN = 20
"""Jobs of one process that are shown."""

_PAGE = 500


class Running(NamedTuple):
    """A job that runs; ``since_ms`` is the latest that its claim can have begun."""

    queue: str
    info: JobInfo
    since_ms: int | None


@dataclass(slots=True)
class Crew:
    """One process of a worker, or another claimant.

    Attributes:
        holder: who.
        jobs: what it runs now, the longest-running first.
    """

    holder: Holder
    jobs: list[Running] = field(default_factory=list)

    @property
    def heard_ms(self) -> int | None:
        """When it was last heard of, epoch milliseconds."""
        return max((job.info.updated_at_ms or 0 for job in self.jobs), default=0) or None


@dataclass(slots=True)
class Host:
    """One machine; its name is empty for claimants that are no workers of ours."""

    name: str
    crews: list[Crew] = field(default_factory=list)

    @property
    def running(self) -> int:
        """How many jobs run there."""
        return sum(len(crew.jobs) for crew in self.crews)


class Workforce(NamedTuple):
    """What was found; ``has_more`` if not all running jobs were looked at."""

    hosts: list[Host]
    scanned: int
    has_more: bool


async def workforce_of(client: AsyncVerbs, sightings: Sightings, queues: Iterable[str]) -> Workforce:
    """Look at the running jobs of some queues.

    Raises:
        PinLaterError: the server does not answer.
    """
    crews: dict[Holder, Crew] = {}
    scanned, has_more = 0, False
    for queue in queues:
        try:
            page = await client.scan(queue, JobState.IN_PROGRESS, limit=min(_PAGE, MOST_JOBS - scanned))
        except QueueNotFound:
            continue
        for info in page.jobs:
            holder = _whole(holder_of(info.claim or ""))
            crew = crews.setdefault(holder, Crew(holder))
            crew.jobs.append(Running(queue, info, sightings.since_ms(info)))
        scanned += len(page.jobs)
        has_more = has_more or page.continuation is not None
        if scanned >= MOST_JOBS:
            has_more = True
            break
    return Workforce(_by_host(crews.values()), scanned, has_more)


def _whole(holder: Holder) -> Holder:
    """Leave the number of the dequeue out: one process has many."""
    return holder._replace(source=holder.source.rpartition(".")[0]) if holder.host else holder


def _by_host(crews: Iterable[Crew]) -> list[Host]:
    hosts: dict[str, Host] = {}
    for crew in sorted(crews, key=lambda crew: (not crew.holder.host, crew.holder)):
        crew.jobs.sort(key=lambda job: job.since_ms or 0)
        hosts.setdefault(crew.holder.host, Host(crew.holder.host)).crews.append(crew)
    return list(hosts.values())

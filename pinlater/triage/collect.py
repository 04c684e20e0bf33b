"""Collection of readings from a service, in a bounded number of calls however many queues and jobs there are."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TypeVar

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.periodic import PeriodicJobs
from pinlater.client.store_time import now_ms_of
from pinlater.errors import ProtocolError, QueueNotFound
from pinlater.model.failure_groups import FailureGroup
from pinlater.model.jobs import missing_shards
from pinlater.model.queues import QueueSettings
from pinlater.model.state import JobState
from pinlater.model.statistics import HOUR, MINUTE, Statistics, StatisticsKind, total
from pinlater.model.workers import WorkerReport
from pinlater.triage.readings import Depth, Flow, Readings, ServerReading
from pinlater.triage.waiting_samples import WaitingSampler

MOST_COUNTED = 10
"""Maximum number of queues whose jobs are counted: those whose jobs have waited longest."""

MOST_GROUPS = 200
"""Maximum number of failure groups to read: the largest ones of all queues."""

RECENT_MINUTES = 5
"""Full minutes that, with the current one, count as recent."""

BEFORE_HOURS = 4
"""Hours that the recent minutes are compared with."""

_BEFORE_SECONDS = 300.0
"""How long the flows of the hours before are cached."""

_WAITS_SECONDS = 1.0

_TIMED_AGAIN_SECONDS = 0.1
"""A small call that took longer is timed again: the first one connects, and this machine may have stalled."""

T = TypeVar("T")
D = TypeVar("D")


class Collector:
    """Collects readings.

    Args:
        client: client of the server.
        periodic: returns the periodic jobs of some queues; None to ask the server each time.
        groups: returns the failure groups of some queues, or of all, the largest first; None likewise.
        workers: returns the worker reports; None likewise.
    """

    def __init__(
        self,
        client: AsyncVerbs,
        *,
        periodic: Callable[[Collection[str]], Awaitable[PeriodicJobs]] | None = None,
        groups: Callable[[Collection[str]], Awaitable[list[FailureGroup]]] | None = None,
        workers: Callable[[], Awaitable[list[WorkerReport]]] | None = None,
    ) -> None:
        self._client = client
        self._periodic = periodic or client.periodic_jobs
        self._groups = groups or self._largest_groups
        self._workers = workers or client.workers
        self._sampler = WaitingSampler(client)
        self._before: tuple[tuple[str, ...], float, dict[str, Flow]] | None = None  # queues, good until, flows

    async def collect(self, queues: Collection[str] = (), server: ServerReading | None = None) -> Readings:
        """Return readings of some queues, or of all; queues that do not exist are left out.

        Args:
            queues: names of queues; empty for all.
            server: figures from a server's metrics; None if unavailable.

        Raises:
            PinLaterError: the server does not answer.
        """
        not_told: list[str] = []
        everything, answer_seconds = await self._timed_settings()
        if server is None and answer_seconds > _TIMED_AGAIN_SECONDS:
            everything, again_seconds = await self._timed_settings()
            answer_seconds = min(answer_seconds, again_seconds)
        settings = everything if not queues else {name: everything[name] for name in queues if name in everything}
        oldest = await self._client.oldest_due(queues)
        workers = await _told(self._workers(), None, "workers", not_told)
        at_ms = await now_ms_of(self._client)  # by which all times in the readings are
        waiting = sorted((name for name in oldest if name in settings), key=lambda name: oldest[name])
        waiting = [
            name for name in waiting if settings[name].is_paused or at_ms - oldest[name] >= 1000 * _WAITS_SECONDS
        ]
        depths = await self._depths(waiting)
        periodic = await self._periodic(list(settings)) if settings else PeriodicJobs([], set())
        if periodic.left_out:
            not_told.append("periodic jobs of deep queues")
        groups: list[FailureGroup] = await _told(self._groups(queues), [], "failure groups", not_told)
        recent, last_minute, before = await self._flows(queues, at_ms, not_told)
        samples = await self._sampler.sample(settings, depths, recent, server, workers=workers or (), at_ms=at_ms)
        return Readings(
            at_ms=at_ms,
            settings=settings,
            oldest_due_ms=oldest,
            workers=workers,
            depths=depths,
            recent=recent,
            last_minute=last_minute,
            before=before,
            groups=groups[:MOST_GROUPS],
            periodic=periodic.jobs,
            keys=samples.keys,
            holds=samples.holds,
            classes=samples.classes,
            server=server,
            answer_seconds=answer_seconds,
            missing_shards=await self._missing_shards(settings) if server is None else (),
            not_told=not_told,
        )

    async def _missing_shards(self, queues: Iterable[str]) -> tuple[str, ...]:
        """Return the shards that do not answer, as the server's metrics would tell."""
        for queue in queues:
            try:
                return missing_shards(await self._client.count(queue, JobState.IN_PROGRESS))
            except QueueNotFound:  # deleted in the meantime
                continue
        return ()

    async def _timed_settings(self) -> tuple[dict[str, QueueSettings], float]:
        """Return the settings of all queues, and how many seconds the call took."""
        started = time.monotonic()
        settings = await self._client.queue_settings()
        return settings, time.monotonic() - started

    async def _flows(
        self, queues: Collection[str], at_ms: int, not_told: list[str]
    ) -> tuple[dict[str, Flow] | None, dict[str, Flow], dict[str, Flow]]:
        """Return the flows of the last minutes, of the last minute, and of the hours before."""
        since_ms = at_ms - RECENT_MINUTES * 60_000
        minutes = await _told(self._statistics(queues, MINUTE, since_ms), None, "statistics", not_told)
        if minutes is None:
            return None, {}, {}
        recent = _flows(minutes, at_ms, since_ms)
        now, key = time.monotonic(), tuple(queues)
        if self._before is None or self._before[0] != key or now >= self._before[1]:
            first_ms = at_ms - BEFORE_HOURS * 3_600_000
            hours = _flows(await self._statistics(queues, HOUR, first_ms), at_ms, first_ms)
            self._before = key, now + _BEFORE_SECONDS, _earlier(hours, recent)  # minutes read later are not in them
        newest_ms = at_ms - 60_000
        last = _flows([one for one in minutes if one.start_ms + 60_000 > newest_ms], at_ms, newest_ms)
        return recent, last, self._before[2]

    async def _largest_groups(self, queues: Collection[str]) -> list[FailureGroup]:
        return await self._client.failure_groups(queues, limit=MOST_GROUPS)

    async def _statistics(self, queues: Collection[str], resolution: int, since_ms: int) -> list[Statistics]:
        return await self._client.statistics(
            StatisticsKind.QUEUE, resolution=resolution, since_ms=since_ms, queues=queues
        )

    async def _depths(self, waiting: Iterable[str]) -> dict[str, Depth]:
        """Count the jobs of the first ``MOST_COUNTED`` queues."""
        found: dict[str, Depth] = {}
        for queue in list(waiting)[:MOST_COUNTED]:
            try:
                due = await self._client.count(queue, JobState.PENDING)
                found[queue] = Depth(due, await self._client.count(queue, JobState.IN_PROGRESS))
            except QueueNotFound:  # deleted in the meantime
                continue
        return found


def _flows(statistics: Iterable[Statistics], at_ms: int, since_ms: int) -> dict[str, Flow]:
    """Return the flow of each queue since the start of the period that contains ``since_ms``."""
    by_queue: defaultdict[str, list[Statistics]] = defaultdict(list)
    for one in statistics:
        by_queue[one.queue].append(one)
    return {queue: _flow(total(some), at_ms, since_ms) for queue, some in by_queue.items()}


def _flow(one: Statistics, at_ms: int, since_ms: int) -> Flow:
    seconds = max(at_ms - min(one.start_ms, since_ms), 1) / 1000
    return Flow(seconds, one.enqueued, one.started, one.succeeded, one.failed, one.given_up)


def _earlier(flows: Mapping[str, Flow], recent: Mapping[str, Flow]) -> dict[str, Flow]:
    """Return the flows before the last minutes: the whole flows minus the recent ones."""
    nothing = Flow(0.0)
    return {
        queue: Flow(
            max(flow.seconds - recent.get(queue, nothing).seconds, 1.0),
            *(max(int(now - late), 0) for now, late in zip(flow[1:], recent.get(queue, nothing)[1:], strict=True)),
        )
        for queue, flow in flows.items()
    }


async def _told(answer: Awaitable[T], otherwise: D, what: str, not_told: list[str]) -> T | D:
    """Return an answer; if the server is too old for the call, add ``what`` to ``not_told``, return ``otherwise``."""
    try:
        return await answer
    except ProtocolError:
        not_told.append(what)
        return otherwise

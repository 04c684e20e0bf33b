"""Findings for the pages: problems, found in readings of the service and the metrics of its processes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.periodic import PeriodicJobs
from pinlater.dashboard.figures import (
    CALLS_SHED,
    CERTIFICATE_ENDS,
    FAILED_COMMITS,
    FREE_BYTES,
    SHARD_SECONDS,
    STORE_BYTES,
    STORE_SECONDS,
    WAITING_FOR_KEY,
    WARNING_THRESHOLD,
    ServerFigures,
    ShardHealth,
)
from pinlater.dashboard.history import History
from pinlater.dashboard.ttl_cache import TtlCache
from pinlater.model.failure_groups import FailureGroup
from pinlater.model.workers import WorkerReport
from pinlater.triage.collect import Collector
from pinlater.triage.findings import Finding
from pinlater.triage.readings import ShardReading
from pinlater.triage.rules import diagnose
from pinlater.triage.server_samples import ServerSample, server_reading

_SAMPLES = 3
"""The store is judged by what happened in the last three samples: 10 to 15 seconds."""

_STALE_SECONDS = 60.0
"""How long a page shows old findings while new ones are looked for."""

_COST_FACTOR = 3.0
"""While someone watches, readings take at most a quarter of the time. The factor is low, since problems should be shown
soon, and a reading makes only one call at a time."""


class Triage:
    """Finds problems, once for all users.

    Args:
        client: client of the server.
        history: metrics of the last minute.
        read_figures: returns the current metrics.
        periodic: cached periodic jobs by queue; the empty name stands for all queues.
        groups: cached failure groups, likewise.
        reports: cached worker reports; the key is ignored.
    """

    def __init__(
        self,
        client: AsyncVerbs,
        history: History,
        read_figures: Callable[[], Awaitable[ServerFigures]],
        *,
        periodic: TtlCache[str, PeriodicJobs],
        groups: TtlCache[str, list[FailureGroup]],
        reports: TtlCache[str, list[WorkerReport]],
    ) -> None:
        self._history = history
        self._read_figures = read_figures

        async def jobs(queues: Collection[str]) -> PeriodicJobs:
            return await periodic.get(_only(queues))

        async def failure_groups(queues: Collection[str]) -> list[FailureGroup]:
            return await groups.get_fresh(_only(queues))

        async def workers() -> list[WorkerReport]:
            return await reports.get_fresh("")

        self._collector = Collector(client, periodic=jobs, groups=failure_groups, workers=workers)
        self._findings = TtlCache(self._find, stale_seconds=_STALE_SECONDS, cost_factor=_COST_FACTOR)

    async def get(self, queue: str = "") -> list[Finding]:
        """Return the findings about a queue, or about all queues and the store, most severe first.

        Raises:
            PinLaterError: the server does not answer.
        """
        return await self._findings.get(queue)

    async def get_within(
        self, seconds: float, queue: str = "", *, seconds_beside_old: float = 0.0
    ) -> list[Finding] | None:
        """Return the same; None if it takes longer, as when nobody has asked for a while. Raises as ``get``."""
        return await self._findings.get_within(queue, seconds, seconds_beside_old=seconds_beside_old)

    def forget(self) -> None:
        """Drop the findings, after a change."""
        self._findings.forget()

    async def close(self) -> None:
        """Cancel the background work."""
        await self._findings.close()

    async def _find(self, queue: str) -> list[Finding]:
        earlier, now = self._history.earlier(_SAMPLES), await self._read_figures()
        first = None if earlier is None else sample_of(earlier)
        return diagnose(await self._collector.collect([queue] if queue else [], server_reading(first, sample_of(now))))


def sample_of(figures: ServerFigures) -> ServerSample:
    """Return the part of the metrics that triage needs."""
    return ServerSample(
        {labels[0]: times for labels, times in figures.histograms.get(STORE_SECONDS, {}).items()},
        {labels[0]: times for labels, times in figures.histograms.get(SHARD_SECONDS, {}).items()},
        sum(figures.counters.get(FAILED_COMMITS, {}).values()),
        sum(figures.counters.get(CALLS_SHED, {}).values()),
        [_shard(figures, shard) for shard in figures.shards],
        {labels[0]: int(jobs) for labels, jobs in figures.levels.get(WAITING_FOR_KEY, {}).items()},
        {labels[0]: value for labels, value in figures.levels.get(WARNING_THRESHOLD, {}).items()},
        _problem(figures),
        figures.gauges.get(CERTIFICATE_ENDS),
    )


def _only(queues: Collection[str]) -> str:
    """Return the name of the only queue; the empty name, which stands for all, if there are none or several."""
    return next(iter(queues)) if len(queues) == 1 else ""


def _problem(figures: ServerFigures) -> str:
    """Return why no server process accepts calls; empty if one does."""
    reasons = [process.reason for process in figures.processes]
    return "" if None in reasons or not reasons else reasons[0] or ""


def _shard(figures: ServerFigures, shard: ShardHealth) -> ShardReading:
    return ShardReading(
        shard.name,
        shard.error if shard.unhealthy_in else "",
        shard.since_ms,
        figures.level(STORE_BYTES, shard.name),
        figures.level(FREE_BYTES, shard.name),
    )

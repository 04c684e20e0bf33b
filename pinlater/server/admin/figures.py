"""Convert the reports of the server processes for the dashboard."""

from __future__ import annotations

from pinlater.dashboard.figures import (
    CALL_SECONDS,
    CONNECTIONS,
    NAMES,
    PARKED,
    Labels,
    ServerFigures,
    ServerProcess,
    ShardHealth,
)
from pinlater.model.histogram import Histogram
from pinlater.server.admin.reports import ServerStatus
from pinlater.server.metrics.families import CounterSnapshot, DistributionSnapshot, label_values
from pinlater.server.metrics.reports import ProcessReport


def figures_of(status: ServerStatus) -> ServerFigures:
    """Return the metrics that the dashboard shows; counts are sums over all processes, including past ones."""
    counters: dict[str, dict[Labels, int]] = {}
    histograms: dict[str, dict[Labels, Histogram]] = {}
    gauges: dict[str, float] = {}
    levels: dict[str, dict[Labels, float]] = {}
    for one in status.snapshot():
        name = one.info.name
        if name not in NAMES:
            continue
        if isinstance(one, CounterSnapshot):
            counters[name] = {label_values(key): count for key, count in one.values.items()}
        elif isinstance(one, DistributionSnapshot):
            histograms[name] = {
                label_values(key): Histogram(one.bounds, tuple(series.counts), series.sum)
                for key, series in one.series.items()
            }
        elif one.info.labels:
            levels[name] = {label_values(key): value for key, value in one.values.items()}
        elif one.values:
            gauges[name] = one.values[()]
    shards = [ShardHealth(*state) for state in status.shards]
    return ServerFigures([_process(report) for report in status.live], counters, histograms, gauges, levels, shards)


def _process(report: ProcessReport) -> ServerProcess:
    calls = sum(sum(series.counts) for _, series in report.distributions.get(CALL_SECONDS, ()))
    connections, parked = (dict(report.gauge_values.get(name, ())).get((), 0) for name in (CONNECTIONS, PARKED))
    return ServerProcess(
        report.pid,
        report.reason,
        int(connections),
        int(parked),
        calls,
        report.version,
        report.started_ms,
        report.memory_bytes,
    )

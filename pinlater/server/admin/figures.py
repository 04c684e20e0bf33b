"""The reports of the server processes in the form that the dashboard reads."""

from __future__ import annotations

from pinlater.dashboard.figures import (
    CALL_SECONDS,
    CONNECTIONS,
    NAMES,
    PARKED,
    Histogram,
    Labels,
    ServerFigures,
    ServerProcess,
    ShardHealth,
)
from pinlater.server.admin.reports import View
from pinlater.server.metrics.families import CounterSnapshot, DistributionSnapshot, LevelsSnapshot, label_values
from pinlater.server.metrics.reports import Report


def figures_of(view: View) -> ServerFigures:
    """Return what the dashboard needs of a view; counts are sums over all processes, also those that are gone."""
    counters: dict[str, dict[Labels, int]] = {}
    histograms: dict[str, dict[Labels, Histogram]] = {}
    gauges: dict[str, float] = {}
    levels: dict[str, dict[Labels, float]] = {}
    for one in view.snapshot():
        name = one.about.name
        if name not in NAMES:
            continue
        if isinstance(one, CounterSnapshot):
            counters[name] = {label_values(key): count for key, count in one.values.items()}
        elif isinstance(one, DistributionSnapshot):
            histograms[name] = {
                label_values(key): Histogram(one.bounds, tuple(series.counts), series.sum)
                for key, series in one.series.items()
            }
        elif isinstance(one, LevelsSnapshot):
            levels[name] = {label_values(key): value for key, value in one.values.items()}
        elif one.value is not None:
            gauges[name] = one.value
    shards = [ShardHealth(*state) for state in view.shards]
    return ServerFigures([_process(report) for report in view.living], counters, histograms, gauges, levels, shards)


def _process(report: Report) -> ServerProcess:
    calls = sum(sum(series.counts) for _, series in report.distributions.get(CALL_SECONDS, ()))
    gauges = report.gauges
    return ServerProcess(
        report.pid,
        report.reason,
        int(gauges.get(CONNECTIONS, 0)),
        int(gauges.get(PARKED, 0)),
        calls,
        report.version,
        report.started_ms,
        report.memory_bytes,
    )

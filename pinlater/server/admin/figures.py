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
from pinlater.server.metrics.families import CounterSnapshot, DistributionSnapshot, LabeledGaugeSnapshot, label_values
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
        elif isinstance(one, LabeledGaugeSnapshot):
            levels[name] = {label_values(key): value for key, value in one.values.items()}
        elif one.value is not None:
            gauges[name] = one.value
    shards = [ShardHealth(*state) for state in status.shards]
    return ServerFigures([_process(report) for report in status.live], counters, histograms, gauges, levels, shards)


def _process(report: ProcessReport) -> ServerProcess:
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

"""Render ``/metrics`` in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from pinlater.server.metrics.families import (
    COARSE,
    CounterSnapshot,
    DistributionSnapshot,
    GaugeSnapshot,
    Snapshot,
    label_values,
)

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

_NO_SUMS = frozenset({"process_start_time_seconds", "process_max_fds"})
"""Process metrics of which the minimum is shown, since a sum makes no sense."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render_prometheus(snapshots: Sequence[Snapshot], pids: Sequence[int] = ()) -> str:
    """Render the page, with the memory, CPU time and open files of the given processes summed."""
    # Imported here, so that servers without scrapes need not load it.
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(_Collector(snapshots))
    registry.register(_Processes(pids))
    return generate_latest(registry).decode()


class _Collector:
    """Passes snapshots to the Prometheus client library."""

    def __init__(self, snapshots: Sequence[Snapshot]) -> None:
        self._snapshots = snapshots

    def describe(self) -> list[Metric]:
        """Return nothing: without this method, the registry would collect once more to learn the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        for one in self._snapshots:
            if isinstance(one, DistributionSnapshot):
                yield _histogram(one)
            elif isinstance(one, CounterSnapshot) or one.values or one.info.labels:
                yield _values(one)


class _Processes:
    """Sums the process metrics of the client library over several processes."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids

    def describe(self) -> list[Metric]:
        """Return nothing, as ``_Collector.describe`` does."""
        return []

    def collect(self) -> Iterator[Metric]:
        from prometheus_client import CollectorRegistry, ProcessCollector

        families: dict[str, list[Metric]] = {}
        for pid in self._pids:
            # With a separate registry, since it would register itself with the default one.
            collector = ProcessCollector(pid=partial(int, pid), registry=CollectorRegistry())
            for family in collector.collect():
                families.setdefault(family.name, []).append(family)
        for name, parts in families.items():
            combine = min if name in _NO_SUMS else sum
            family = parts[0]
            family.samples = [
                sample._replace(value=combine(part.samples[place].value for part in parts))
                for place, sample in enumerate(family.samples)
            ]
            yield family


def _values(one: CounterSnapshot | GaugeSnapshot) -> CounterMetricFamily | GaugeMetricFamily:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kind = CounterMetricFamily if isinstance(one, CounterSnapshot) else GaugeMetricFamily
    family = kind(one.info.name, one.info.help, labels=one.info.labels)
    for key, value in one.values.items():
        family.add_metric(label_values(key), value)
    return family


def _histogram(one: DistributionSnapshot) -> HistogramMetricFamily:
    """Build a histogram of every fourth bound: all bounds of many queues would make a page of megabytes."""
    from prometheus_client.core import HistogramMetricFamily

    scale = one.info.to_base
    names = [f"{bound * scale:.12g}" for bound in one.bounds[::COARSE]]
    family = HistogramMetricFamily(one.info.name, one.info.help, labels=one.info.labels)
    for key, series in one.series.items():
        below = list(accumulate(series.counts))
        buckets = [*zip(names, below[:-1:COARSE], strict=True), ("+Inf", below[-1])]
        family.add_metric(label_values(key), buckets, series.sum * scale)
    return family

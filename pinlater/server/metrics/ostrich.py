"""Render ``/stats.txt`` in the text format of Twitter's Ostrich library, which the original service used."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence

from pinlater.server.metrics.families import (
    CounterSnapshot,
    DistributionSnapshot,
    GaugeSnapshot,
    Series,
    Snapshot,
)
from pinlater.server.metrics.percentiles import percentile

_SHARES = (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("p9999", 0.9999))


def render_ostrich(snapshots: Sequence[Snapshot]) -> str:
    """Render the page, with values since the start of the server."""
    counters = {
        one.info.ostrich_name(key): _number(value)
        for one in snapshots
        if isinstance(one, CounterSnapshot)
        for key, value in one.values.items()
    }
    gauges = {
        one.info.ostrich_name(key): _number(value)
        for one in snapshots
        if isinstance(one, GaugeSnapshot)
        for key, value in one.values.items()
    }
    metrics = {
        name: text for one in snapshots if isinstance(one, DistributionSnapshot) for name, text in _distribution(one)
    }
    sections: dict[str, dict[str, str]] = {"counters": counters, "gauges": gauges, "labels": {}, "metrics": metrics}
    return "".join(line for title, values in sections.items() for line in _section(title, values.items()))


def _section(title: str, rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield f"{title}:\n"
    for name, value in sorted(rows):
        yield f"  {name}: {value}\n"


def _distribution(one: DistributionSnapshot) -> Iterator[tuple[str, str]]:
    scale = one.info.to_ostrich
    for key, series in one.series.items():
        if series.count:
            yield one.info.ostrich_name(key), _summary(series, one.bounds, scale)
    if one.info.ostrich_total and one.series:
        total = functools.reduce(Series.merged, one.series.values())
        yield one.info.ostrich_total, _summary(total, one.bounds, scale)


def _summary(series: Series, bounds: Sequence[float], scale: float) -> str:
    values = {
        "average": series.sum / series.count * scale,
        "count": series.count,
        "maximum": series.maximum * scale,
        "minimum": series.minimum * scale,
        **{name: percentile(series, bounds, share) * scale for name, share in _SHARES},
        "sum": series.sum * scale,
    }
    return "(" + ", ".join(f"{name}={_number(value)}" for name, value in values.items()) + ")"


def _number(value: float) -> str:
    rounded = round(value, 3)
    return str(int(rounded)) if rounded == int(rounded) else repr(rounded)

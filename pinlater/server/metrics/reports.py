"""Encode the metrics of a server process for the admin process, and sum them over several processes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from pinlater import __version__
from pinlater.server.metrics.catalog import Metrics
from pinlater.server.metrics.derived import backlog_seconds
from pinlater.server.metrics.families import (
    CounterSnapshot,
    DistributionSnapshot,
    GaugeSnapshot,
    Key,
    Series,
    Snapshot,
    label_values,
)
from pinlater.server.metrics.shard_state import ShardState, combine
from pinlater.server.metrics.shards import MOST_SHARDS

Labels = tuple[str, ...]
_Value = TypeVar("_Value")
_Families = dict[str, list[tuple[Labels, _Value]]]


class _PackedSeries(NamedTuple):
    counts: list[int]
    sum: float
    minimum: float
    maximum: float


class ProcessReport(msgspec.Struct):
    """The metrics and health of one process; names of families are those of the catalog.

    Attributes:
        pid: its process id.
        reason: why it cannot take calls now; None if it can.
        counters: family -> label values -> count.
        distributions: family -> label values -> series.
        gauge_values: family -> label values -> value.
        shared_values: likewise, for what all processes measure alike.
        shards: state of each shard, as the process sees it.
        version: the version of the program.
        started_ms: when the process started, epoch milliseconds; 0 if unknown.
        memory_bytes: resident memory; 0 if unknown.
    """

    pid: int
    reason: str | None = None
    counters: _Families[int] = {}
    distributions: _Families[_PackedSeries] = {}
    gauge_values: _Families[float] = {}
    shared_values: _Families[float] = {}
    shards: list[ShardState] = []
    version: str = ""
    started_ms: int = 0
    memory_bytes: int = 0

    def counts_only(self) -> ProcessReport:
        """Return the counts alone, which stay valid when the process is gone."""
        return ProcessReport(self.pid, self.reason, self.counters, self.distributions)


_decoder = msgspec.msgpack.Decoder(ProcessReport)


def encode_report(
    pid: int,
    reason: str | None,
    snapshots: Sequence[Snapshot],
    *,
    shards: Sequence[ShardState] = (),
    started_ms: int = 0,
    memory_bytes: int = 0,
) -> bytes:
    """Encode the report of a process."""
    report = ProcessReport(
        pid, reason, shards=list(shards), version=__version__, started_ms=started_ms, memory_bytes=memory_bytes
    )
    for one in snapshots:
        name = one.info.name
        if isinstance(one, CounterSnapshot):
            report.counters[name] = [(label_values(key), count) for key, count in one.values.items()]
        elif isinstance(one, DistributionSnapshot):
            report.distributions[name] = [(label_values(key), _pack(series)) for key, series in one.series.items()]
        else:
            _gauges_of(report, one)[name] = [(label_values(key), value) for key, value in one.values.items()]
    return msgspec.msgpack.encode(report)


def decode_report(data: bytes) -> ProcessReport:
    """Decode the report of a process.

    Raises:
        msgspec.MsgspecError: the bytes are not a complete report.
    """
    return _decoder.decode(data)


def sum_reports(reports: Iterable[ProcessReport]) -> ProcessReport:
    """Sum the reports of several processes; for shared gauges, take the maximum."""
    total = ProcessReport(0)
    for report in reports:
        _combine(total.counters, report.counters, operator.add)
        _combine(total.distributions, report.distributions, _merged)
        _combine(total.gauge_values, report.gauge_values, operator.add)
        _combine(total.shared_values, report.shared_values, max)
        total.shards = combine([*total.shards, *report.shards])
    return total


def snapshots_of(report: ProcessReport) -> list[Snapshot]:
    """Return all families of the catalog with the values of a report, derived metrics included."""
    metrics = Metrics()
    backlog, rates = (
        dict(report.gauge_values.get(family.info.name, ()))
        for family in (metrics.backlog_jobs, metrics.completions_per_second)
    )
    report.gauge_values[metrics.backlog_seconds.info.name] = list(backlog_seconds(backlog, rates).items())
    report.gauge_values[metrics.shard_unhealthy.info.name] = [
        ((shard.name,), float(shard.unhealthy_in > 0)) for shard in report.shards[:MOST_SHARDS]
    ]
    return [_filled(one, report) for one in metrics.snapshot()]


def _filled(one: Snapshot, report: ProcessReport) -> Snapshot:
    name = one.info.name
    if isinstance(one, CounterSnapshot):
        return one._replace(values=dict(report.counters.get(name, ())))
    if isinstance(one, DistributionSnapshot):
        series: dict[Key, Series] = {key: Series(*packed) for key, packed in report.distributions.get(name, ())}
        return one._replace(series=series)
    return one._replace(values=dict(_gauges_of(report, one).get(name, ())))


def _gauges_of(report: ProcessReport, one: GaugeSnapshot) -> _Families[float]:
    return report.shared_values if one.info.is_shared else report.gauge_values


def _combine(total: _Families[_Value], more: _Families[_Value], join: Callable[[_Value, _Value], _Value]) -> None:
    """Add the families of a report to those of the total; ``join`` combines the values of a series that both have."""
    for name, series in more.items():
        combined = dict(total.get(name, ()))
        for key, value in series:
            combined[key] = join(combined[key], value) if key in combined else value
        total[name] = list(combined.items())


def _merged(mine: _PackedSeries, theirs: _PackedSeries) -> _PackedSeries:
    return _pack(Series(*mine).merged(Series(*theirs)))


def _pack(series: Series) -> _PackedSeries:
    return _PackedSeries(series.counts, series.sum, series.minimum, series.maximum)

"""Encode the metrics of a server process for the admin process, and sum them over several processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    LabeledGaugeSnapshot,
    Series,
    Snapshot,
    label_values,
)
from pinlater.server.metrics.shard_state import ShardState, combine
from pinlater.server.metrics.shards import MOST_SHARDS

Labels = tuple[str, ...]
_Number = TypeVar("_Number", int, float)


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
        gauges: family -> value.
        labeled_gauges: family -> label values -> value.
        shared: family -> value, for what all processes measure alike.
        shards: state of each shard, as the process sees it.
        version: the version of the program.
        started_ms: when the process started, epoch milliseconds; 0 if unknown.
        memory_bytes: resident memory; 0 if unknown.
    """

    pid: int
    reason: str | None = None
    counters: dict[str, list[tuple[Labels, int]]] = {}
    distributions: dict[str, list[tuple[Labels, _PackedSeries]]] = {}
    gauges: dict[str, float] = {}
    labeled_gauges: dict[str, list[tuple[Labels, float]]] = {}
    shared: dict[str, float] = {}
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
        elif isinstance(one, LabeledGaugeSnapshot):
            report.labeled_gauges[name] = [(label_values(key), value) for key, value in one.values.items()]
        elif one.value is not None:
            (report.shared if one.info.is_shared else report.gauges)[name] = one.value
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
        for name, counts in report.counters.items():
            total.counters[name] = list(_added(total.counters.get(name, ()), counts).items())
        for name, series in report.distributions.items():
            total.distributions[name] = list(_merged(total.distributions.get(name, ()), series).items())
        for name, value in report.gauges.items():
            total.gauges[name] = total.gauges.get(name, 0) + value
        for name, values in report.labeled_gauges.items():
            total.labeled_gauges[name] = list(_added(total.labeled_gauges.get(name, ()), values).items())
        for name, value in report.shared.items():
            total.shared[name] = max(total.shared.get(name, value), value)
        total.shards = combine([*total.shards, *report.shards])
    return total


def snapshots_of(report: ProcessReport) -> list[Snapshot]:
    """Return all families of the catalog with the values of a report, derived metrics included."""
    metrics = Metrics()
    backlog, rates = (
        dict(report.labeled_gauges.get(family.info.name, ()))
        for family in (metrics.backlog_jobs, metrics.completions_per_second)
    )
    report.labeled_gauges[metrics.backlog_seconds.info.name] = list(backlog_seconds(backlog, rates).items())
    report.labeled_gauges[metrics.shard_unhealthy.info.name] = [
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
    if isinstance(one, LabeledGaugeSnapshot):
        return one._replace(values=dict(report.labeled_gauges.get(name, ())))
    return GaugeSnapshot(one.info, (report.shared if one.info.is_shared else report.gauges).get(name))


def _added(mine: Iterable[tuple[Labels, _Number]], theirs: Iterable[tuple[Labels, _Number]]) -> dict[Labels, _Number]:
    total = dict(mine)
    for key, count in theirs:
        total[key] = total[key] + count if key in total else count
    return total


def _merged(
    mine: Iterable[tuple[Labels, _PackedSeries]], theirs: Iterable[tuple[Labels, _PackedSeries]]
) -> dict[Labels, _PackedSeries]:
    total = dict(mine)
    for key, packed in theirs:
        total[key] = _pack(Series(*total[key]).merged(Series(*packed))) if key in total else packed
    return total


def _pack(series: Series) -> _PackedSeries:
    return _PackedSeries(series.counts, series.sum, series.minimum, series.maximum)

"""What one server process has counted, as bytes for another process, and added up over several."""

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
    LevelsSnapshot,
    Series,
    Snapshot,
    label_values,
)
from pinlater.server.metrics.shard_state import ShardState, joined
from pinlater.server.metrics.shards import MOST_SHARDS

Labels = tuple[str, ...]
_Number = TypeVar("_Number", int, float)


class _Series(NamedTuple):
    counts: list[int]
    sum: float
    minimum: float
    maximum: float


class Report(msgspec.Struct):
    """The values of one process; names of families are those of the catalog.

    Attributes:
        pid: the process.
        reason: why it should get no calls now; None if it should.
        counters: family -> label values -> count.
        distributions: family -> label values -> series.
        gauges: family -> present value.
        levels: family -> label values -> present value.
        common: family -> present value of what all processes see alike.
        shards: how the process finds each of them.
        version: of the program.
        started_ms: when the process began, epoch milliseconds; 0 if it does not tell.
        memory_bytes: what it holds; 0 if that is not known.
    """

    pid: int
    reason: str | None = None
    counters: dict[str, list[tuple[Labels, int]]] = {}
    distributions: dict[str, list[tuple[Labels, _Series]]] = {}
    gauges: dict[str, float] = {}
    levels: dict[str, list[tuple[Labels, float]]] = {}
    common: dict[str, float] = {}
    shards: list[ShardState] = []
    version: str = ""
    started_ms: int = 0
    memory_bytes: int = 0

    def without_present(self) -> Report:
        """Return what stays true when the process is gone: its counts."""
        return Report(self.pid, self.reason, self.counters, self.distributions)


_decoder = msgspec.msgpack.Decoder(Report)


def encode_report(
    pid: int,
    reason: str | None,
    snapshots: Sequence[Snapshot],
    *,
    shards: Sequence[ShardState] = (),
    started_ms: int = 0,
    memory_bytes: int = 0,
) -> bytes:
    """Return a process's values as bytes."""
    report = Report(
        pid, reason, shards=list(shards), version=__version__, started_ms=started_ms, memory_bytes=memory_bytes
    )
    for one in snapshots:
        name = one.about.name
        if isinstance(one, CounterSnapshot):
            report.counters[name] = [(label_values(key), count) for key, count in one.values.items()]
        elif isinstance(one, DistributionSnapshot):
            report.distributions[name] = [(label_values(key), _flat(series)) for key, series in one.series.items()]
        elif isinstance(one, LevelsSnapshot):
            report.levels[name] = [(label_values(key), value) for key, value in one.values.items()]
        elif one.value is not None:
            (report.common if one.about.is_common else report.gauges)[name] = one.value
    return msgspec.msgpack.encode(report)


def decode_report(data: bytes) -> Report:
    """Return what ``encode_report`` was given.

    Raises:
        msgspec.MsgspecError: these are other bytes, or half of them.
    """
    return _decoder.decode(data)


def total_of(reports: Iterable[Report]) -> Report:
    """Return the sums over processes; of what they see alike, the highest value."""
    total = Report(0)
    for report in reports:
        for name, counts in report.counters.items():
            total.counters[name] = list(_added(total.counters.get(name, ()), counts).items())
        for name, series in report.distributions.items():
            total.distributions[name] = list(_merged(total.distributions.get(name, ()), series).items())
        for name, value in report.gauges.items():
            total.gauges[name] = total.gauges.get(name, 0) + value
        for name, values in report.levels.items():
            total.levels[name] = list(_added(total.levels.get(name, ()), values).items())
        for name, value in report.common.items():
            total.common[name] = max(total.common.get(name, value), value)
        total.shards = joined([*total.shards, *report.shards])
    return total


def snapshots_of(report: Report) -> list[Snapshot]:
    """Return all families of the catalog, with the values of a report, and of those made of others."""
    metrics = Metrics()
    backlog, rates = (
        dict(report.levels.get(family.about.name, ()))
        for family in (metrics.backlog_jobs, metrics.completions_per_second)
    )
    report.levels[metrics.backlog_seconds.about.name] = list(backlog_seconds(backlog, rates).items())
    report.levels[metrics.shard_ill.about.name] = [
        ((shard.name,), float(shard.ill_in > 0)) for shard in report.shards[:MOST_SHARDS]
    ]
    return [_filled(one, report) for one in metrics.snapshot()]


def _filled(one: Snapshot, report: Report) -> Snapshot:
    name = one.about.name
    if isinstance(one, CounterSnapshot):
        return one._replace(values=dict(report.counters.get(name, ())))
    if isinstance(one, DistributionSnapshot):
        series: dict[Key, Series] = {key: Series(*flat) for key, flat in report.distributions.get(name, ())}
        return one._replace(series=series)
    if isinstance(one, LevelsSnapshot):
        return one._replace(values=dict(report.levels.get(name, ())))
    return GaugeSnapshot(one.about, (report.common if one.about.is_common else report.gauges).get(name))


def _added(mine: Iterable[tuple[Labels, _Number]], theirs: Iterable[tuple[Labels, _Number]]) -> dict[Labels, _Number]:
    total = dict(mine)
    for key, count in theirs:
        total[key] = total[key] + count if key in total else count
    return total


def _merged(mine: Iterable[tuple[Labels, _Series]], theirs: Iterable[tuple[Labels, _Series]]) -> dict[Labels, _Series]:
    total = dict(mine)
    for key, flat in theirs:
        total[key] = _flat(Series(*total[key]).merged(Series(*flat))) if key in total else flat
    return total


def _flat(series: Series) -> _Series:
    return _Series(series.counts, series.sum, series.minimum, series.maximum)

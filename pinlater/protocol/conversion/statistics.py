"""Structs of statistics and failure groups <-> records."""

from __future__ import annotations

from collections.abc import Iterable

from pinlater.model.failure_groups import FailureGroup
from pinlater.model.statistics import RunStatistics, Spread, Statistics
from pinlater.protocol import messages
from pinlater.protocol.conversion.record_map import RARE, Conversion, RecordMap

_SPREAD = Conversion(lambda counts: Spread(counts or {}), lambda spread: dict(spread.counts) or None)
_OF_RUNS = {"succeeded": RARE, "failed": RARE, "givenUp": RARE, "waitBuckets": _SPREAD, "runBuckets": _SPREAD}

STATISTICS = RecordMap(messages.PinLaterStatistics, Statistics, _OF_RUNS | {"enqueued": RARE, "started": RARE})

RUN_STATISTICS = RecordMap(
    messages.PinLaterRunStatistics,
    RunStatistics,
    _OF_RUNS,
    order=("className", "succeeded", "failed", "givenUp", "waitBuckets", "runBuckets"),
    is_strict=False,
)

FAILURE_GROUP = RecordMap(messages.PinLaterFailureGroup, FailureGroup)


def run_statistics(structs: Iterable[messages.PinLaterRunStatistics | None]) -> list[RunStatistics]:
    """Read a worker's run statistics of its classes; leave out invalid ones."""
    read = (RUN_STATISTICS.record(struct) for struct in structs if struct is not None)
    return [one for one in read if one.is_valid]

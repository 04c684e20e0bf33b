"""Structs of statistics <-> records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pinlater.model.statistics import RunStatistics, Spread, Statistics
from pinlater.protocol import messages
from pinlater.protocol.conversion.values import present


def statistics(reply: Any) -> list[Statistics]:
    """Read what happened in some periods."""
    return [
        Statistics(
            struct.queueName or "",
            struct.name or "",
            present(struct.startTimestampMillis),
            struct.enqueued or 0,
            struct.started or 0,
            struct.succeeded or 0,
            struct.failed or 0,
            struct.givenUp or 0,
            _spread(struct.waitBuckets),
            _spread(struct.runBuckets),
        )
        for struct in present(reply)
    ]


def statistics_struct(found: Statistics) -> messages.PinLaterStatistics:
    """Build the struct of what happened in one period; numbers that are 0 are left out."""
    return messages.PinLaterStatistics(
        found.queue,
        found.name,
        found.start_ms,
        found.enqueued or None,
        found.started or None,
        found.succeeded or None,
        found.failed or None,
        found.given_up or None,
        _buckets(found.wait),
        _buckets(found.run),
    )


def run_structs(runs: Iterable[RunStatistics]) -> list[messages.PinLaterRunStatistics]:
    """Build the structs of what a worker tells of classes; numbers that are 0 are left out."""
    return [
        messages.PinLaterRunStatistics(
            one.name,
            one.succeeded or None,
            one.failed or None,
            one.given_up or None,
            _buckets(one.run),
            _buckets(one.wait),
        )
        for one in runs
    ]


def run_statistics(structs: Iterable[messages.PinLaterRunStatistics]) -> list[RunStatistics]:
    """Read what a worker tells of classes, as far as it can be."""
    read = (
        RunStatistics(
            struct.className or "",
            struct.succeeded or 0,
            struct.failed or 0,
            struct.givenUp or 0,
            _spread(struct.waitBuckets),
            _spread(struct.runBuckets),
        )
        for struct in structs
        if struct is not None
    )
    return [one for one in read if one.is_valid]


def _spread(buckets: Mapping[int, int] | None) -> Spread:
    return Spread(buckets or {})


def _buckets(spread: Spread) -> dict[int, int] | None:
    return dict(spread.counts) or None

"""Estimate percentiles from buckets."""

from __future__ import annotations

from collections.abc import Sequence

from pinlater.server.metrics.families import Series


def percentile(series: Series, bounds: Sequence[float], share: float) -> float:
    """Estimate the value that ``share`` (0 to 1) of all values do not exceed, to about a tenth.

    Values are assumed to be spread evenly within a bucket; the result lies between the true minimum and maximum. It is
    0 for a series without values.
    """
    total = series.count
    if not total:
        return 0.0
    rank = share * total
    passed = 0
    for index, count in enumerate(series.counts):
        if count and passed + count >= rank:
            low = max(bounds[index - 1], series.minimum) if index else series.minimum
            high = min(bounds[index], series.maximum) if index < len(bounds) else series.maximum
            return low + (high - low) * (rank - passed) / count
        passed += count
    return series.maximum

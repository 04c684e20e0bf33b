"""Latency histogram of any number of queries, in little memory."""

from __future__ import annotations

import math
from collections import Counter

_STEPS_PER_DOUBLING = 64  # each bucket is 1.1 % wider than the one before
_SMALLEST = 1e-6


class Latencies:
    """Histogram of durations with buckets of growing width; quantiles are exact to about one percent.

    Attributes:
        count: number of durations.
        total: sum in seconds.
        largest: maximum in seconds.
    """

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count = 0
        self.total = 0.0
        self.largest = 0.0

    def add(self, seconds: float) -> None:
        """Add a duration in seconds."""
        self._buckets[math.ceil(math.log2(max(seconds, _SMALLEST)) * _STEPS_PER_DOUBLING)] += 1
        self.count += 1
        self.total += seconds
        self.largest = max(self.largest, seconds)

    def quantile(self, share: float) -> float:
        """Return the seconds that ``share`` (0..1) of the durations do not exceed; 0.0 if there are none."""
        wanted = math.ceil(share * self.count)
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return float(min(2 ** (bucket / _STEPS_PER_DOUBLING), self.largest))
        return 0.0

"""Histograms of measured values."""

from __future__ import annotations

from typing import NamedTuple


class Histogram(NamedTuple):
    """Distribution of measured values; the last bucket counts values above all bounds."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float

    @property
    def size(self) -> int:
        """Number of values."""
        return sum(self.counts)

    @property
    def mean(self) -> float | None:
        """Mean of the values; None if there are none."""
        return self.sum / self.size if self.size else None

    def since(self, older: Histogram | None) -> Histogram:
        """Return the values added since an older state of the same histogram."""
        if older is None or older.size > self.size or older.bounds != self.bounds:
            return self  # the counts began anew, since all processes were replaced, perhaps by those of a new version
        added = tuple(now - then for now, then in zip(self.counts, older.counts, strict=True))
        return Histogram(self.bounds, added, self.sum - older.sum)

    def quantile(self, share: float) -> float | None:
        """Return the quantile ``share`` (0 to 1), to about ten percent; None without values.

        It is interpolated within a bucket, because a difference of histograms has no known extremes.
        """
        rank, passed = share * self.size, 0
        for index, count in enumerate(self.counts):
            if count and passed + count >= rank:
                low = self.bounds[index - 1] if index else 0.0
                high = self.bounds[min(index, len(self.bounds) - 1)]
                return low + (high - low) * (rank - passed) / count
            passed += count
        return None

"""Compute the recent growth of counters."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

WINDOW_SECONDS = 300.0
"""How far back rates look."""


class RecentRates:
    """Computes growth per second over the last ``seconds``, or since the first sample.

    Args:
        seconds: how far back to look.
    """

    def __init__(self, seconds: float = WINDOW_SECONDS) -> None:
        self._seconds = seconds
        self._samples: deque[tuple[float, Mapping[str, float]]] = deque()

    def add(self, now: float, counts: Mapping[str, float]) -> dict[str, float]:
        """Add the current counts; return their rates, none before the second sample.

        Args:
            now: monotonic seconds.
            counts: name -> count; the rate of one that falls is negative.
        """
        samples = self._samples
        while len(samples) > 1 and samples[1][0] <= now - self._seconds:
            samples.popleft()
        samples.append((now, counts))
        began, first = samples[0]
        if now <= began:
            return {}
        return {name: (count - first.get(name, 0)) / (now - began) for name, count in counts.items()}

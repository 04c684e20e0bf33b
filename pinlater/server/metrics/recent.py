"""How fast counters have grown lately."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

WINDOW_SECONDS = 300.0
"""What "lately" is."""


class RecentRates:
    """Growth a second over the last five minutes, or as long as there are samples.

    Args:
        seconds: the time looked back at.
    """

    def __init__(self, seconds: float = WINDOW_SECONDS) -> None:
        self._seconds = seconds
        self._samples: deque[tuple[float, Mapping[str, int]]] = deque()

    def add(self, now: float, counts: Mapping[str, int]) -> dict[str, float]:
        """Take the counts of one moment; return the rates of those that have one.

        Args:
            now: monotonic seconds.
            counts: name -> a number that only grows.
        """
        samples = self._samples
        while len(samples) > 1 and samples[1][0] <= now - self._seconds:
            samples.popleft()
        samples.append((now, counts))
        began, first = samples[0]
        if now <= began:
            return {}
        return {name: (count - first.get(name, 0)) / (now - began) for name, count in counts.items()}

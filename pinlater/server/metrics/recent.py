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
        absent: the count of a name in samples without it; None: unknown, so its growth is measured from the first
            sample that has it.
    """

    def __init__(self, seconds: float = WINDOW_SECONDS, *, absent: float | None = 0.0) -> None:
        self._seconds = seconds
        self._absent = absent
        self._samples: deque[tuple[float, Mapping[str, float]]] = deque()

    def add(self, now: float, counts: Mapping[str, float]) -> dict[str, float]:
        """Add the current counts; return their rates, none for a name before its second sample.

        Args:
            now: monotonic seconds.
            counts: name -> count; the rate of one that falls is negative.
        """
        samples = self._samples
        while len(samples) > 1 and samples[1][0] <= now - self._seconds:
            samples.popleft()
        samples.append((now, counts))
        rates = {}
        for name, count in counts.items():
            began, first = self._first(name)
            if now > began:
                rates[name] = (count - first) / (now - began)
        return rates

    def _first(self, name: str) -> tuple[float, float]:
        """Return the time and the count from which the growth of a name is measured."""
        known = ((at, counts.get(name, self._absent)) for at, counts in self._samples)
        return next((at, count) for at, count in known if count is not None)

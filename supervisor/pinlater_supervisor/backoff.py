"""How long to wait before a child that died is replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pinlater_supervisor.exits import ChildExit

STABLE_SECONDS = 5.0
"""A child that was ready and ran this long did not crash at start."""
FIRST_DELAY_SECONDS = 0.1
UNREADY_CAP_SECONDS = 10.0
"""For children that cannot even start: nothing is lost by waiting."""
READY_CAP_SECONDS = 1.0
"""For children that do start: their pool may be crashing on one bad item among many good ones."""
LEAVING_SECONDS = 0.1
"""Shortest life of a child that left of its own will, so that leaving at once is no fork storm."""


class Backoff:
    """Crashes of one pool: the first in each slot is free, then the delay doubles.

    Failures are counted per pool and divided by its size: when all children crash alike, each slot
    sees 0, 0.1, 0.2, 0.4 … seconds.
    """

    def __init__(self, size: int) -> None:
        self._size = max(1, size)
        self._failures = 0
        self._calm_at = 0.0

    def delay_seconds(self, ended: ChildExit, now: float) -> float:
        """Seconds to hold back the replacement of a child that has just ended."""
        if ended.was_ready and ended.is_clean:
            return max(0.0, LEAVING_SECONDS - ended.run_seconds)
        if ended.was_ready and ended.run_seconds >= STABLE_SECONDS:
            return 0.0
        cap = READY_CAP_SECONDS if ended.was_ready else UNREADY_CAP_SECONDS
        return self._failed(now, cap)

    def _failed(self, now: float, cap: float) -> float:
        if now > self._calm_at:
            self._failures = 0
        rounds = self._failures // self._size
        self._failures += 1
        delay = min(cap, FIRST_DELAY_SECONDS * 2 ** min(rounds - 1, 30)) if rounds else 0.0
        self._calm_at = now + delay + STABLE_SECONDS
        return delay

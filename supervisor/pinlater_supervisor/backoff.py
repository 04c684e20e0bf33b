"""Backoff between the crash of a child and its replacement."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pinlater_supervisor.exits import ChildExit

STABLE_SECONDS = 5.0
"""A child that was ready and ran this long did not crash at start."""
FIRST_DELAY_SECONDS = 0.1
UNREADY_CAP_SECONDS = 10.0
"""Longest delay for children that never became ready: nothing is lost by waiting."""
READY_CAP_SECONDS = 1.0
"""Longest delay for children that were ready: their pool may crash on one bad item among many good ones."""
LEAVING_SECONDS = 0.1
"""Shortest life of a child that exits by itself, so that exiting at once causes no fork storm."""


class CrashBackoff:
    """Delays replacements of one pool's crashed children: the first crash in each slot is free, then delays double.

    Failures are counted per pool and divided by its size: when all children crash alike, each slot
    sees 0, 0.1, 0.2, 0.4 … seconds.
    """

    def __init__(self, size: int) -> None:
        self._size = max(1, size)
        self._failures = 0
        self._forget_at = 0.0

    def delay_seconds(self, ended: ChildExit, now: float) -> float:
        """Return the seconds to wait before a child that has just ended is replaced."""
        if ended.was_ready and ended.is_clean:
            return max(0.0, LEAVING_SECONDS - ended.run_seconds)
        if ended.was_ready and ended.run_seconds >= STABLE_SECONDS:
            return 0.0
        cap = READY_CAP_SECONDS if ended.was_ready else UNREADY_CAP_SECONDS
        return self._delay_after_crash(now, cap)

    def _delay_after_crash(self, now: float, cap: float) -> float:
        if now > self._forget_at:
            self._failures = 0
        rounds = self._failures // self._size
        self._failures += 1
        delay = min(cap, FIRST_DELAY_SECONDS * 2 ** min(rounds - 1, 30)) if rounds else 0.0
        self._forget_at = now + delay + STABLE_SECONDS
        return delay

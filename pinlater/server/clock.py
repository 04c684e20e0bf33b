"""A clock for the store's times that a step of the system clock cannot move.

Run times and claim expiries are epoch milliseconds, so that they survive a restart. If they were judged by the
system clock directly, a step of 30 s forward would expire claims that are being worked on, and one backward
would delay every new job.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

MOST_SLEW = 0.1
"""Share of the elapsed time by which this clock may run faster or slower than real time."""

LOOK_SECONDS = 1.0
"""The system clock is looked at no more often than this."""


def _elapsed_source() -> Callable[[], float]:
    """Prefer the clock that also counts the time a machine sleeps: to a claim, that time has passed."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    return time.monotonic


elapsed_seconds = _elapsed_source()
"""Seconds that never step, and that count the time a machine sleeps."""


class _Look(NamedTuple):
    """What the last look at the system clock found.

    One object, so that another thread sees all of it or nothing.
    """

    seconds: float  # on the elapsed-time source
    at_ms: float  # what this clock showed then
    offset_ms: float  # how far the system clock was ahead
    slew: float  # milliseconds per second added until the next look
    next_seconds: float


class SteadyClock:
    """Epoch milliseconds: the system clock at the start, plus the time that really passed since.

    Where the system clock goes another way, this one follows it by running at most 10 % faster or slower; it
    never goes back. Any thread may read it.

    Args:
        wall: source of epoch seconds.
        elapsed: source of seconds that never steps.
    """

    def __init__(self, wall: Callable[[], float] = time.time, elapsed: Callable[[], float] | None = None) -> None:
        self._wall = wall
        self._elapsed = elapsed or elapsed_seconds
        now = self._elapsed()
        self._look = self._look_from(now, wall() * 1000)

    def now_ms(self) -> int:
        """Return the present time in epoch milliseconds."""
        now = self._elapsed()
        look = self._look
        if now >= look.next_seconds:
            look = self._look = self._look_from(now, _shown(look, now))
        return int(look.at_ms + (now - look.seconds) * (1000 + look.slew))

    def _look_from(self, now: float, at_ms: float) -> _Look:
        offset_ms = self._wall() * 1000 - at_ms
        slew = _within(offset_ms / LOOK_SECONDS, 1000 * MOST_SLEW)
        return _Look(now, at_ms, offset_ms, slew, now + LOOK_SECONDS)


def _shown(look: _Look, now: float) -> float:
    """Return what the clock shows at least ``LOOK_SECONDS`` after a look: it went no further than the offset."""
    passed_ms = (now - look.seconds) * 1000
    return look.at_ms + passed_ms + _within(look.offset_ms, passed_ms * MOST_SLEW)


def _within(value: float, limit: float) -> float:
    return max(-limit, min(limit, value))

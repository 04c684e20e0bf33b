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


elapsed_seconds: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)
"""Seconds that never step. Where there is such a clock, the time a machine sleeps counts: for claims it has passed."""


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
    never goes back. It is not ahead of the system clock unless that was put back: of the two sources, the system clock
    is read first, so that a pause between the two readings makes this clock late. Any thread may read it.

    Args:
        wall: source of epoch seconds.
        elapsed: source of seconds that never steps.
        at_ms: what it shows first; None: what the system clock shows.
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = elapsed_seconds,
        at_ms: float | None = None,
    ) -> None:
        self._wall = wall
        self._elapsed = elapsed
        wall_ms = wall() * 1000
        self._look = _look_from(elapsed(), wall_ms if at_ms is None else at_ms, wall_ms)

    def now_ms(self) -> int:
        """Return the present time in epoch milliseconds."""
        now = self._elapsed()
        look = self._look
        if now >= look.next_seconds:
            wall_ms = self._wall() * 1000
            now = self._elapsed()
            look = self._look = _look_from(now, _shown(look, now), wall_ms)
        return int(look.at_ms + (now - look.seconds) * (1000 + look.slew))


def _look_from(now: float, at_ms: float, wall_ms: float) -> _Look:
    offset_ms = wall_ms - at_ms
    slew = _within(offset_ms / LOOK_SECONDS, 1000 * MOST_SLEW)
    return _Look(now, at_ms, offset_ms, slew, now + LOOK_SECONDS)


def _shown(look: _Look, now: float) -> float:
    """Return what the clock shows at least ``LOOK_SECONDS`` after a look: it went no further than the offset."""
    passed_ms = (now - look.seconds) * 1000
    return look.at_ms + passed_ms + _within(look.offset_ms, passed_ms * MOST_SLEW)


def _within(value: float, limit: float) -> float:
    return max(-limit, min(limit, value))

"""Provide a clock for the store that follows steps of the system clock gradually.

Run times and claim expiries are epoch milliseconds, so that they survive a restart. With the system clock itself, a
step of 30 s forward would expire claims of running jobs, and a step backward would delay every new job.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

log = logging.getLogger(__name__)

MAX_SLEW = 0.1
"""How much faster or slower than real time this clock may run, as a fraction."""

CHECK_SECONDS = 1.0
"""The system clock is read no more often than this."""

_LEAST_STEP_MS = 5000.0
"""A step of the system clock by more than this is logged, since its correction takes a minute or longer."""


elapsed_seconds: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)
"""Seconds that never step. Time during which the machine sleeps counts, if the system has such a clock."""


def milliseconds_since(moment: float | None) -> int:
    """Return how long ago a moment of ``elapsed_seconds`` was; None is now."""
    return 0 if moment is None else int((elapsed_seconds() - moment) * 1000)


class _Reading(NamedTuple):
    """The last reading of the system clock.

    One object, so that other threads see a consistent state.
    """

    seconds: float  # on the elapsed-time source
    at_ms: float  # what this clock showed then
    offset_ms: float  # how far the system clock was ahead
    slew: float  # milliseconds per second to add until the next reading
    next_seconds: float


class SteadyClock:
    """Tells epoch milliseconds: the system clock at the start, plus the time that has really passed since.

    If the system clock is changed, this one follows by running at most 10 % faster or slower; it never goes back. It is
    ahead of the system clock only after that was set back: since the system clock is read before the elapsed time, a
    pause between the two makes this clock late. Any thread may read it.

    Args:
        wall: source of epoch seconds.
        elapsed: source of seconds that never steps.
        at_ms: the time it shows first; None: the system time.
        name: whose clock ``wall`` is, for the log; empty: its steps are not logged.
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = elapsed_seconds,
        at_ms: float | None = None,
        name: str = "",
    ) -> None:
        self._wall = wall
        self._elapsed = elapsed
        self._name = name
        wall_ms = wall() * 1000
        self._reading = _read(elapsed(), wall_ms if at_ms is None else at_ms, wall_ms)

    def now_ms(self) -> int:
        """Return the current time in epoch milliseconds."""
        now = self._elapsed()
        reading = self._reading
        if now >= reading.next_seconds:
            wall_ms = self._wall() * 1000
            now = self._elapsed()
            before = reading
            reading = self._reading = _read(now, _time_shown(before, now), wall_ms)
            if self._name and abs(reading.offset_ms) > _LEAST_STEP_MS >= abs(before.offset_ms):
                self._log_step(reading.offset_ms / 1000)
        return int(reading.at_ms + (now - reading.seconds) * (1000 + reading.slew))

    def _log_step(self, seconds: float) -> None:
        log.warning(
            "the clock of %s was set %s by %.0f s; the time of the jobs follows it slowly, for %.1f hours; "
            "it follows at once if all servers of the store are stopped for ten seconds",
            self._name,
            "forward" if seconds > 0 else "back",
            abs(seconds),
            abs(seconds) / MAX_SLEW / 3600,
        )


def _read(now: float, at_ms: float, wall_ms: float) -> _Reading:
    offset_ms = wall_ms - at_ms
    slew = _within(offset_ms / CHECK_SECONDS, 1000 * MAX_SLEW)
    return _Reading(now, at_ms, offset_ms, slew, now + CHECK_SECONDS)


def _time_shown(reading: _Reading, now: float) -> float:
    """Return what the clock shows ``CHECK_SECONDS`` or more after a reading; it never overcorrects the offset."""
    passed_ms = (now - reading.seconds) * 1000
    return reading.at_ms + passed_ms + _within(reading.offset_ms, passed_ms * MAX_SLEW)


def _within(value: float, limit: float) -> float:
    return max(-limit, min(limit, value))

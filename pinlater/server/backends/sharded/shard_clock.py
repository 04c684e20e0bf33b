"""The time of one shard, as far as its answers prove it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from math import inf
from typing import NamedTuple

from pinlater.server.clock import SteadyClock, elapsed_seconds

MOST_DRIFT = 0.0005
"""Share of the elapsed time by which two clocks may come apart, while both are kept right without steps."""

NEAR_MS, FAR_MS = 250, 6000
"""Servers whose clocks are nearer than the first agree, those that are farther apart than the second do not. Each reads
the shard's clock more often than the second."""

READ_SECONDS = 3.3
"""Each server reads the shard's clock so often, or half a second later; the monitor has mostly done so before."""

FRESH_MS = 2200
"""A record that is younger is left for the next reading: so there is always one that is younger than ``FAR_MS``."""


class ClockRecord(NamedTuple):
    """The time that a server goes by, stored at a shard whose clock it has read.

    Attributes:
        ahead_ms: how far that is ahead of the shard's clock.
        seen_ms: what the shard's clock showed.
    """

    ahead_ms: float
    seen_ms: float


class ShardClock:
    """A steady clock that shows what a shard's clock shows, or a little less, but never more.

    An answer proves that the shard's clock has shown its time by now, and had not shown it before the question: so
    each reading bounds how far that clock is ahead of the time elapsed here. This clock goes by the lower bound, since
    a job that is handed out a little late is on time, and one that is handed out early is not. Neither the time that
    connecting takes nor a long way to the shard makes it run ahead. A step of the shard's clock is followed slowly.

    Args:
        elapsed: source of seconds that never steps.
        machine: source of epoch seconds of this machine, which has to do until the shard was read.
    """

    def __init__(
        self, elapsed: Callable[[], float] = elapsed_seconds, machine: Callable[[], float] = time.time
    ) -> None:
        self._elapsed = elapsed
        self._at_least = self._at_most = 0.0  # milliseconds that the shard's clock is ahead of the time elapsed here
        self._read_at: float | None = None
        self._has_met = False
        self._steady = SteadyClock(machine, elapsed)

    @property
    def is_read(self) -> bool:
        """Whether it shows the shard's time."""
        return self._read_at is not None

    @property
    def age_seconds(self) -> float:
        """How long ago it was read."""
        return inf if self._read_at is None else self._elapsed() - self._read_at

    def now_ms(self) -> int:
        """Return the present time in epoch milliseconds."""
        return self._steady.now_ms()

    async def read(self, ask: Callable[[], Awaitable[float]]) -> float:
        """Read the shard's clock.

        Args:
            ask: returns what it shows, in epoch milliseconds.

        Returns:
            Milliseconds that this clock is ahead of the time elapsed here.
        """
        asked_at = self._elapsed()
        shown_ms = await ask()
        self._learn(asked_at, shown_ms, self._elapsed())
        return self.ahead_ms

    @property
    def ahead_ms(self) -> float:
        """Milliseconds that it is ahead of the time elapsed here."""
        return self.now_ms() - self._elapsed() * 1000

    def meet(self, own_ms: float, last: ClockRecord | None) -> ClockRecord | None:
        """Adopt the time that the other servers go by, if this clock is far from it.

        It is if the shard's clock was set before this one was read for the first time, or if this machine was paused
        together with its clocks. A step of the shard's clock makes the last record seem long ago, or yet to come; then
        this clock is as good as any.

        Args:
            own_ms: what the shard's clock has just shown.
            last: what the server that was there last has left.

        Returns:
            What to leave for the others; None: that which is there.
        """
        is_first, self._has_met = not self._has_met, True
        theirs_ms = None
        if last is not None and 0 <= own_ms - last.seen_ms <= FAR_MS:
            theirs_ms = own_ms + last.ahead_ms
        apart_ms = 0.0 if theirs_ms is None else abs(theirs_ms - self.now_ms())
        if apart_ms > (NEAR_MS if is_first else FAR_MS):
            self._steady = SteadyClock(self._wall, self._elapsed, theirs_ms)
        elif not is_first and not (apart_ms < NEAR_MS and last is not None and 0 <= own_ms - last.seen_ms < FRESH_MS):
            return ClockRecord(self.now_ms() - own_ms, own_ms)
        return None

    def _learn(self, asked_at: float, shown_ms: float, answered_at: float) -> None:
        at_least, at_most = shown_ms - answered_at * 1000, shown_ms - asked_at * 1000
        is_first = self._read_at is None
        if not is_first:
            least_before, most_before = self._bounds(answered_at)
            if least_before <= at_most and at_least <= most_before:  # else the shard's clock was set anew
                at_least, at_most = max(at_least, least_before), min(at_most, most_before)
        self._at_least, self._at_most, self._read_at = at_least, at_most, answered_at
        if is_first:  # no caller has relied on the time before: no need to approach it slowly
            self._steady = SteadyClock(self._wall, self._elapsed)

    def _bounds(self, now: float) -> tuple[float, float]:
        drift = 0.0 if self._read_at is None else (now - self._read_at) * 1000 * MOST_DRIFT
        return self._at_least - drift, self._at_most + drift

    def _wall(self) -> float:
        now = self._elapsed()
        return now + self._bounds(now)[0] / 1000

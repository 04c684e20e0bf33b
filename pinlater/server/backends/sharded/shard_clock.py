"""The time of one shard, as bounded by its answers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from math import inf
from typing import NamedTuple

from pinlater.server.clock import SteadyClock, elapsed_seconds

MOST_DRIFT = 0.0005
"""Fraction of the elapsed time by which two clocks may drift apart while both are synchronized without steps."""

NEAR_MS, FAR_MS = 250, 6000
"""Servers whose clocks are less than the first apart agree; those more than the second apart do not. Each server reads
the shard's clock at shorter intervals than the second."""

READ_SECONDS = 3.3
"""Each server reads the shard's clock at this interval, or half a second later; usually the monitor did so before."""

FRESH_MS = 2200
"""A record younger than this is not replaced until the next reading, so there is always one younger than ``FAR_MS``."""


class ClockRecord(NamedTuple):
    """The time that a server goes by, stored on the shard whose clock it has read.

    Attributes:
        ahead_ms: how far that time is ahead of the shard's clock.
        seen_ms: what the shard's clock showed.
    """

    ahead_ms: float
    seen_ms: float


class ShardClock:
    """A steady clock that shows what a shard's clock shows, or a little less, but never more.

    The shard's clock showed the time in its answer at some moment between question and answer. So each reading bounds
    how far that clock is ahead of the time elapsed here. This clock uses the lower bound, since a job that is handed
    out slightly late is on time, and one that is handed out early is not. So neither the time that connecting takes nor
    a long way to the shard makes it run ahead. A step of the shard's clock is followed slowly.

    Args:
        elapsed: source of seconds that never steps.
        machine: source of this machine's epoch seconds, used until the shard's clock is read.
        name: the shard's name for the log; empty: steps of its clock are not logged.
    """

    def __init__(
        self,
        elapsed: Callable[[], float] = elapsed_seconds,
        machine: Callable[[], float] = time.time,
        name: str = "",
    ) -> None:
        self._elapsed = elapsed
        self._name = name
        self._at_least = self._at_most = 0.0  # milliseconds that the shard's clock is ahead of the time elapsed here
        self._read_at: float | None = None
        self._has_met = False
        self._steady = SteadyClock(machine, elapsed)

    @property
    def is_read(self) -> bool:
        """Whether the shard's clock has been read, so that this clock shows its time."""
        return self._read_at is not None

    @property
    def age_seconds(self) -> float:
        """Seconds since the shard's clock was last read; infinite: never."""
        return inf if self._read_at is None else self._elapsed() - self._read_at

    def now_ms(self) -> int:
        """Return the present time in epoch milliseconds."""
        return self._steady.now_ms()

    async def read(self, ask: Callable[[], Awaitable[float]]) -> float:
        """Read the shard's clock.

        Args:
            ask: returns what the shard's clock shows, in epoch milliseconds.

        Returns:
            How many milliseconds this clock is ahead of the time elapsed here.
        """
        asked_at = self._elapsed()
        shown_ms = await ask()
        self._learn(asked_at, shown_ms, self._elapsed())
        return self.ahead_ms

    @property
    def ahead_ms(self) -> float:
        """How many milliseconds this clock is ahead of the time elapsed here."""
        return self.now_ms() - self._elapsed() * 1000

    def meet(self, own_ms: float, last: ClockRecord | None) -> ClockRecord | None:
        """Adopt the time that the other servers go by, if this clock is far from it.

        That is the case if the shard's clock was set before this server first read it, or if this machine was paused
        together with its clocks. After a step of the shard's clock, the last record seems to be long ago or in the
        future; then this clock is as good as any.

        Args:
            own_ms: what the shard's clock has just shown.
            last: the record that the last server has left; None: there is none.

        Returns:
            The record to store for the other servers; None: leave the present one.
        """
        is_first, self._has_met = not self._has_met, True
        theirs_ms = None
        if last is not None and 0 <= own_ms - last.seen_ms <= FAR_MS:
            theirs_ms = own_ms + last.ahead_ms
        apart_ms = 0.0 if theirs_ms is None else abs(theirs_ms - self.now_ms())
        if apart_ms > (NEAR_MS if is_first else FAR_MS):
            self._steady = SteadyClock(self._wall, self._elapsed, theirs_ms, name=self._name)
        elif not is_first and not (apart_ms < NEAR_MS and last is not None and 0 <= own_ms - last.seen_ms < FRESH_MS):
            return ClockRecord(self.now_ms() - own_ms, own_ms)
        return None

    def _learn(self, asked_at: float, shown_ms: float, answered_at: float) -> None:
        at_least, at_most = shown_ms - answered_at * 1000, shown_ms - asked_at * 1000
        is_first = self._read_at is None
        if not is_first:
            least_before, most_before = self._bounds(answered_at)
            if least_before <= at_most and at_least <= most_before:  # otherwise the shard's clock has stepped
                at_least, at_most = max(at_least, least_before), min(at_most, most_before)
        self._at_least, self._at_most, self._read_at = at_least, at_most, answered_at
        if is_first:  # no caller has relied on the shard's time yet, so there is no need to approach it slowly
            self._steady = SteadyClock(self._wall, self._elapsed, name=self._name)

    def _bounds(self, now: float) -> tuple[float, float]:
        drift = 0.0 if self._read_at is None else (now - self._read_at) * 1000 * MOST_DRIFT
        return self._at_least - drift, self._at_most + drift

    def _wall(self) -> float:
        now = self._elapsed()
        return now + self._bounds(now)[0] / 1000

"""The time of a store that several servers share, for everything that does not concern a single shard."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median_low

from pinlater.errors import ServiceError
from pinlater.server.backends.sharded.fan_out import ask_all
from pinlater.server.backends.sharded.shard_clock import READ_SECONDS
from pinlater.server.backends.sharded.shard_group import ShardGroup
from pinlater.server.clock import SteadyClock, elapsed_seconds

log = logging.getLogger(__name__)

_LEAST_PAUSE_SECONDS = 0.5

_CLOSE_MS = 10.0
"""Clocks that are behind the median by up to this time are waited for: a job must have fallen due on its shard, too."""


_APART_MS = 5000.0
"""A shard whose clock differs by more from those of the others is logged; a slow first answer explains less."""


class StoreClock:
    """A steady clock that shows what the shards' clocks show, as far as those are known.

    Timers and ages use it, whatever this machine's clock says. What is due and what has expired is decided by each
    shard's own time. Until a shard has answered for the first time, this machine's clock is used.

    Args:
        elapsed: source of seconds that never steps.
        machine: source of this machine's epoch seconds.
    """

    def __init__(
        self, elapsed: Callable[[], float] = elapsed_seconds, machine: Callable[[], float] = time.time
    ) -> None:
        self._elapsed = elapsed
        self._ahead_seconds: float | None = None
        self._steady = SteadyClock(machine, elapsed)

    def now_ms(self) -> int:
        """Return the present time in epoch milliseconds."""
        return self._steady.now_ms()

    def learn(self, ahead_ms: Sequence[float]) -> None:
        """Set the clock from how far each shard's clock is ahead of the time elapsed here; see ``ShardClock``.

        The slowest clock is used, so that a timer does not fire before a job has fallen due on its shard. One that is
        far behind the median is left out: it would delay the jobs of all other shards.
        """
        if not ahead_ms:
            return
        is_first = self._ahead_seconds is None
        median = median_low(ahead_ms)
        self._ahead_seconds = min(ahead for ahead in ahead_ms if ahead >= median - _CLOSE_MS) / 1000
        if is_first:  # no caller has relied on the shards' time yet, so there is no need to approach it slowly
            self._steady = SteadyClock(self._wall, self._elapsed)

    def _wall(self) -> float:
        return self._elapsed() + (self._ahead_seconds or 0.0)


class ClockUpdater:
    """Sets a clock from the clocks of the shards, and reads those that nobody has read lately.

    Args:
        group: the shards.
        clock: the clock to set.
    """

    def __init__(self, group: ShardGroup, clock: StoreClock) -> None:
        self._group = group
        self._clock = clock
        self._is_answered = True
        self._apart: set[str] = set()

    async def update(self) -> None:
        """Set the clock once, after reading the shards' clocks that are due for it."""
        handles = self._group.healthy()
        old = [handle for handle in handles if handle.shard.clock.age_seconds >= READ_SECONDS]
        known = {handle.name: handle.shard.clock.ahead_ms for handle in handles if handle not in old}
        try:
            answers = await ask_all(old, lambda shard: shard.read_clock()) if old or not known else []
            self._is_answered = True
        except ServiceError:
            answers = []
            if self._is_answered and not known:  # logged once, as the store may be down for long
                log.warning("no shard tells its time; this server continues from the times that they told before")
                self._is_answered = False
        known |= {handle.name: ahead_ms for handle, ahead_ms in answers}
        self._clock.learn([*known.values()])
        self._log_apart(known)

    def _log_apart(self, ahead_ms: Mapping[str, float]) -> None:
        """Log once which shards' clocks are off, given how far each is ahead of the time elapsed here."""
        median = median_low(ahead_ms.values()) if ahead_ms else 0.0
        for name, ahead in ahead_ms.items():
            off_ms = ahead - median
            if abs(off_ms) < _APART_MS / 2:
                self._apart.discard(name)
            elif abs(off_ms) > _APART_MS and name not in self._apart:
                self._apart.add(name)
                is_ahead = off_ms > 0
                log.warning(
                    "the clock of shard %s is %.0f s %s those of other shards: its jobs are due too %s by this time, "
                    "unless the other clocks are wrong; synchronize the clocks of the databases",
                    name,
                    abs(off_ms) / 1000,
                    "ahead of" if is_ahead else "behind",
                    "early" if is_ahead else "late",
                )

    async def run(self) -> None:
        """Keep setting the clock; to be run as a task."""
        while True:
            oldest = max((handle.shard.clock.age_seconds for handle in self._group.healthy()), default=0.0)
            await asyncio.sleep(max(READ_SECONDS - oldest, _LEAST_PAUSE_SECONDS))
            await self.update()

"""Whether this process stood still: it was stopped, its machine slept or was paused, or its loop was blocked.

Meanwhile it took no renewals of claims. So before it ends any, their holders get time, as after a start.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from pinlater.server.clock import elapsed_seconds

log = logging.getLogger(__name__)

QUIET_SECONDS = 10.0
"""After a start, and at most after a standstill: claims that ran out meanwhile get this long to be renewed."""

_TICK_SECONDS = 0.2
_LONGEST_GAP_SECONDS = 1.0
"""Between two ticks; what is longer is a standstill."""

_QUIET_FOR_GAP = 4.0
"""So many times as long as the standstill was: a server that stalls now and then still ends claims."""


class Respite(NamedTuple):
    """How long the process has run without a standstill, and for how long after one claims are spared."""

    age_ms: int
    quiet_ms: int


class Standstill:
    """Detects standstills by clocks that go on whatever happens to this process; a start counts as one.

    Args:
        elapsed: source of seconds.
        wall: source of epoch seconds, which may be all that is set right when a virtual machine goes on.
    """

    def __init__(self, elapsed: Callable[[], float] = elapsed_seconds, wall: Callable[[], float] = time.time) -> None:
        self._elapsed = elapsed
        self._wall = wall
        self._ticked_at = self._since = elapsed()
        self._wall_at = wall()
        self._quiet_until = self._since + QUIET_SECONDS

    async def watch(self) -> None:
        """Check the clocks again and again; to be run as a task."""
        while True:
            self._tick()
            await asyncio.sleep(_TICK_SECONDS)

    def respite(self) -> Respite:
        """Return how long claims are to be spared, also in the first moment after a standstill."""
        now = self._tick()
        return Respite(int((now - self._since) * 1000), int((self._quiet_until - self._since) * 1000))

    def _tick(self) -> float:
        now, wall = self._elapsed(), self._wall()
        gap = max(now - self._ticked_at, wall - self._wall_at)
        self._ticked_at, self._wall_at = now, wall
        if gap > _LONGEST_GAP_SECONDS:
            log.warning("this server stood still for %.1f s; claims get time to be renewed before any ends", gap)
            self._since = now
            self._quiet_until = max(self._quiet_until, now + min(gap * _QUIET_FOR_GAP, QUIET_SECONDS))
        return now

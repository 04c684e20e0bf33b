"""Detect stalls of this process: it was stopped, its machine slept or was paused, or its event loop was blocked.

It received no renewals of claims meanwhile, so holders get time to renew them before any expires, as after a start.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from pinlater.server.clock import elapsed_seconds

log = logging.getLogger(__name__)

GRACE_SECONDS = 10.0
"""How long after a start, and at most after a stall, expired claims can still be renewed."""

_TICK_SECONDS = 0.2
_LONGEST_GAP_SECONDS = 1.0
"""A longer gap between two ticks is a stall."""

_GRACE_PER_GAP = 4.0
"""The grace period in multiples of the stall, so that a server with occasional short stalls still expires claims."""


class GracePeriod(NamedTuple):
    """How long the process has run without a stall, and how long after its last one no claim expires."""

    age_ms: int
    quiet_ms: int


class StallDetector:
    """Detects stalls with clocks that advance even while this process does not run; a start counts as a stall.

    Args:
        elapsed: source of seconds.
        wall: source of epoch seconds, the only clock that may be corrected when a virtual machine resumes.
    """

    def __init__(self, elapsed: Callable[[], float] = elapsed_seconds, wall: Callable[[], float] = time.time) -> None:
        self._elapsed = elapsed
        self._wall = wall
        self._ticked_at = self._since = elapsed()
        self._wall_at = wall()
        self._grace_until = self._since + GRACE_SECONDS

    async def watch(self) -> None:
        """Check the clocks regularly, until cancelled."""
        while True:
            self._tick()
            await asyncio.sleep(_TICK_SECONDS)

    def grace_period(self) -> GracePeriod:
        """Return the grace period of claims, valid from the first moment after a stall."""
        now = self._tick()
        return GracePeriod(int((now - self._since) * 1000), int((self._grace_until - self._since) * 1000))

    def _tick(self) -> float:
        now, wall = self._elapsed(), self._wall()
        stood_still, went_on = now - self._ticked_at, wall - self._wall_at
        gap = max(stood_still, went_on)
        self._ticked_at, self._wall_at = now, wall
        if gap > _LONGEST_GAP_SECONDS:
            log.warning(
                "%s %.1f s; claims can be renewed for a while before any expires",
                "this server was stalled for"
                if stood_still > _LONGEST_GAP_SECONDS
                else "this machine's clock was set forward by",
                gap,
            )
            self._since = now
            self._grace_until = max(self._grace_until, now + min(gap * _GRACE_PER_GAP, GRACE_SECONDS))
        return now

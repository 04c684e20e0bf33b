"""The monitor: ends expired claims and collects finished jobs, in small steps, for as long as the server runs."""

from __future__ import annotations

import asyncio
import logging
import time

from pinlater.errors import ServerError
from pinlater.server.backends.contract import Backend
from pinlater.server.broker import Broker
from pinlater.server.metrics import Metrics
from pinlater.server.settings import Settings

log = logging.getLogger(__name__)

QUIET_MS = 10_000
"""After a start, claims that ran out while the server was away get this long, or their lease, to be renewed."""

_BUSY_PAUSE_SECONDS = 0.02


class Monitor:
    """Looks after jobs that nobody looks after.

    Args:
        backend: the store.
        broker: told of jobs that become claimable.
        settings: how often, how much at once, what is kept how long.
        metrics: told of what happens.
    """

    def __init__(self, backend: Backend, broker: Broker, settings: Settings, metrics: Metrics) -> None:
        self._metrics = metrics
        self._backend = backend
        self._broker = broker
        self._settings = settings
        self._started = time.monotonic()

    async def run(self) -> None:
        """Look again and again until cancelled; a failure is logged and does not end it."""
        is_away = False
        while True:
            is_behind = False
            try:
                is_behind = await self._look()
                is_away = False
            except ServerError as error:
                if not is_away:  # said once: the store may be away for long
                    log.warning("the monitor cannot look after jobs until the store is back: %s", error)
                is_away = True
            except Exception:
                log.exception("the monitor failed; it tries again")
            await asyncio.sleep(_BUSY_PAUSE_SECONDS if is_behind else self._settings.monitor_interval_seconds)

    async def _look(self) -> bool:
        """Do one step; return whether there is more of the same."""
        limit = self._settings.monitor_batch_size
        reaped, collected = await asyncio.gather(self._reap(limit), self._collect(limit))
        return max(reaped, collected) >= limit

    async def _reap(self, limit: int) -> int:
        age_ms = int((time.monotonic() - self._started) * 1000)
        expired = await self._broker.reap(limit, server_age_ms=age_ms, quiet_ms=QUIET_MS)
        for queue, retried, failed in expired:
            self._metrics.timeouts_retried.add(queue, retried)
            self._metrics.timeouts_done.add(queue, failed)
            log.warning("queue %s: claims expired; %d jobs run again, %d failed", queue, retried, failed)
        return sum(retried + failed for _, retried, failed in expired)

    async def _collect(self, limit: int) -> int:
        collected = await self._backend.collect_finished(
            int(self._settings.succeeded_ttl_seconds * 1000), int(self._settings.failed_ttl_seconds * 1000), limit
        )
        for queue, succeeded, failed in collected:
            self._metrics.succeeded_collected.add(queue, succeeded)
            self._metrics.failed_collected.add(queue, failed)
        return sum(succeeded + failed for _, succeeded, failed in collected)

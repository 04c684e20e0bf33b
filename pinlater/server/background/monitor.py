"""The monitor: ends expired claims, collects finished jobs and forgets results of calls, in small steps."""

from __future__ import annotations

import asyncio
import logging

from pinlater.errors import ServerError
from pinlater.server.backends.store import Store
from pinlater.server.background.standstill import Respite, Standstill
from pinlater.server.broker import Broker
from pinlater.server.config.settings import Settings
from pinlater.server.metrics import Metrics

log = logging.getLogger(__name__)

_BUSY_PAUSE_SECONDS = 0.02


class Monitor:
    """Looks after jobs that nobody looks after.

    Args:
        backend: the store.
        broker: told of jobs that become claimable.
        settings: how often, how much at once, what is kept how long.
        metrics: told of what happens.
    """

    def __init__(self, backend: Store, broker: Broker, settings: Settings, metrics: Metrics) -> None:
        self._metrics = metrics
        self._backend = backend
        self._broker = broker
        self._settings = settings

    async def run(self) -> None:
        """Look again and again until cancelled; a failure is logged and does not end it."""
        standstill = Standstill()  # begins here: another process may have been on duty until now, and is gone
        watching = asyncio.create_task(standstill.watch())
        try:
            await self._run(standstill)
        finally:
            watching.cancel()

    async def _run(self, standstill: Standstill) -> None:
        is_away = False
        while True:
            is_behind = False
            try:
                is_behind = await self._look(standstill.respite())
                is_away = False
            except ServerError as error:
                if not is_away:  # said once: the store may be away for long
                    log.warning("the monitor cannot look after jobs until the store is back: %s", error)
                is_away = True
            except Exception:
                log.exception("the monitor failed; it tries again")
            await asyncio.sleep(_BUSY_PAUSE_SECONDS if is_behind else self._settings.monitor_interval_seconds)

    async def _look(self, respite: Respite) -> bool:
        """Do one step; return whether there is more of the same."""
        limit = self._settings.monitor_batch_size
        done = await asyncio.gather(
            self._reap(limit, respite), self._collect(limit), self._backend.forget_results(limit)
        )
        return max(done) >= limit

    async def _reap(self, limit: int, respite: Respite) -> int:
        expired = await self._broker.reap(limit, server_age_ms=respite.age_ms, quiet_ms=respite.quiet_ms)
        for queue, retried, failed in expired:
            self._metrics.timeouts_retried.add(queue, retried)
            self._metrics.timeouts_done.add(queue, failed)
            self._metrics.jobs_given_up.add(queue, failed)
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

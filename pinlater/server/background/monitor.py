"""Poll all queues, expire claims, collect finished jobs and forget stored results of calls, in small batches."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from pinlater.errors import ServerError
from pinlater.model.failure_groups import CLAIM_EXPIRED
from pinlater.model.plural import plural
from pinlater.server.backends.server_store import ServerStore
from pinlater.server.backends.statistics_buffer import StatisticsBuffer
from pinlater.server.background.stall_detector import GracePeriod, StallDetector
from pinlater.server.broker import Broker
from pinlater.server.clock import elapsed_seconds
from pinlater.server.config.settings import Settings
from pinlater.server.metrics import Metrics
from pinlater.server.peer_processes.server_rank import ServerRank

log = logging.getLogger(__name__)

_BUSY_PAUSE_SECONDS = 0.02
_FORGET_STATISTICS_SECONDS = 10.0


class Monitor:
    """Polls, expires claims, collects what is finished, relays messages, and sizes queues that follow their load.

    Args:
        backend: the store.
        broker: polls the queues and expires the claims, and wakes dequeues for their jobs.
        settings: interval, batch size and retention times.
        metrics: counts what was done.
        statistics: collects failures by group.
        rank: returns the rank of this server among those of the store, which take turns.
    """

    def __init__(
        self,
        backend: ServerStore,
        broker: Broker,
        settings: Settings,
        metrics: Metrics,
        statistics: StatisticsBuffer,
        *,
        rank: Callable[[], ServerRank] = ServerRank,
    ) -> None:
        self._metrics = metrics
        self._statistics = statistics
        self._rank = rank
        self._now_ms = backend.now_ms
        self._backend = backend
        self._broker = broker
        self._settings = settings
        self._forget_statistics_at = 0.0
        self._poll_at = 0.0

    async def run(self) -> None:
        """Run a batch at each turn of this server until cancelled; a failure is logged and does not end it."""
        stalls = StallDetector()  # from now: another process may have led until now
        watching = asyncio.create_task(stalls.watch())
        try:
            await self._run(stalls)
        finally:
            watching.cancel()

    async def _run(self, stalls: StallDetector) -> None:
        is_store_away = False
        while True:
            is_behind = False
            try:
                asked_at = elapsed_seconds()  # taken first: a later stall is noticed below, or comes after this
                is_behind = await self._run_once(asked_at, stalls.grace_period())
                is_store_away = False
            except ServerError as error:
                if not is_store_away:  # logged once: this may last long
                    log.warning(
                        "claims do not expire and finished jobs are not collected where the store fails, "
                        "until it is back: %s",
                        error,
                    )
                is_store_away = True
            except Exception:
                log.exception("the monitor failed, and will retry")
            await asyncio.sleep(_BUSY_PAUSE_SECONDS if is_behind else self._pause_seconds())

    def _pause_seconds(self) -> float:
        return self._rank().seconds_until_turn(self._now_ms(), self._settings.monitor_interval_seconds)

    async def _run_once(self, asked_at: float, grace_period: GracePeriod) -> bool:
        """Run one batch of each task; return whether one of them has more to do."""
        limit = self._settings.monitor_batch_size
        done = await asyncio.gather(
            self._poll(),  # first: on MySQL, its query also tells what the others have to do
            self._reap(limit, asked_at, grace_period),
            self._collect(limit),
            self._backend.forget_results(limit),
            self._forget_statistics(limit),
            self._relay_messages(),
            self._adjust_shards(),
        )
        return max(done) >= limit

    async def _poll(self) -> int:
        """Poll all queues once a turn, however many batches the turn has."""
        if time.monotonic() >= self._poll_at:
            self._poll_at = time.monotonic() + self._settings.monitor_interval_seconds / 2
            await self._broker.poll_all()
        return 0

    async def _relay_messages(self) -> int:
        """Start to deliver the messages to jobs of other shards that were left behind."""
        await self._backend.relay_messages()
        return 0

    async def _adjust_shards(self) -> int:
        """Let queues that follow their load use as many shards as the load needs."""
        await self._backend.adjust_shards(self._broker.is_limited)
        return 0

    async def _reap(self, limit: int, asked_at: float, grace_period: GracePeriod) -> int:
        age_ms, quiet_ms = grace_period
        expired = await self._broker.reap(limit, server_age_ms=age_ms, quiet_ms=quiet_ms, asked_at=asked_at)
        for queue, retried, failed in expired:
            self._metrics.timeouts_retried.add(queue, retried)
            self._metrics.timeouts_done.add(queue, failed)
            self._metrics.jobs_given_up.add(queue, failed)
            self._statistics.add_failures(queue, CLAIM_EXPIRED.group, retried + failed)
            log.warning("queue %s: claims expired; %s will run again, %d failed", queue, plural(retried), failed)
        return sum(retried + failed for _, retried, failed in expired)

    async def _collect(self, limit: int) -> int:
        collected = await self._backend.collect_finished(
            int(self._settings.succeeded_ttl_seconds * 1000), int(self._settings.failed_ttl_seconds * 1000), limit
        )
        for queue, succeeded, failed in collected:
            self._metrics.succeeded_collected.add(queue, succeeded)
            self._metrics.failed_collected.add(queue, failed)
        return sum(succeeded + failed for _, succeeded, failed in collected)

    async def _forget_statistics(self, limit: int) -> int:
        """Delete expired statistics, but look for them rarely, since every period is kept for at least a day."""
        if time.monotonic() < self._forget_statistics_at:
            return 0
        forgotten = await self._backend.forget_statistics(limit)
        if forgotten < limit:
            self._forget_statistics_at = time.monotonic() + _FORGET_STATISTICS_SECONDS
        return forgotten

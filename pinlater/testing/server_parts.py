"""The parts of a server inside the calling process: no supervisor, admin port or monitor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Self

from pinlater.server.api.overload import LoadShedder
from pinlater.server.api.service import Service
from pinlater.server.backends.claim_names import ClaimNames
from pinlater.server.backends.job_notifications import JobNotifications
from pinlater.server.backends.sqlite import SqliteStore
from pinlater.server.backends.statistics_buffer import StatisticsBuffer
from pinlater.server.broker import Broker
from pinlater.server.config.settings import Settings
from pinlater.server.limits.files import RateLimitFiles
from pinlater.server.limits.rate_limits import RateLimits
from pinlater.server.limits.stored_limits import StoredLimits
from pinlater.server.metrics import Metrics
from pinlater.server.net.listeners import address_of, listen
from pinlater.server.net.thrift_server import ThriftServer

_DRAIN_SECONDS = 2.0
_ALL = 1_000_000
"""More jobs than a test has."""


class ServerParts:
    """A server on an SQLite store, made and used within one event loop.

    Attributes:
        address: ``host:port``.

    Args:
        settings: settings of the server.
        now_ms: its clock.

    Raises:
        ConfigError: the store or the port cannot be opened.
    """

    def __init__(self, settings: Settings, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._listener = listen(settings.thrift_host, settings.thrift_port, key="THRIFT_PORT", option="--port")
        self.address = address_of(self._listener)
        try:
            self._backend = SqliteStore(
                settings.data_dir,
                priority_levels=settings.priority_levels,
                now_ms=now_ms,
                synchronous=settings.sqlite_synchronous,
                notifications=(notifications := JobNotifications()),
            )
        except BaseException:
            self._listener.close()
            raise
        metrics, port = Metrics(), self._listener.getsockname()[1]
        limits = RateLimits()
        self._broker = Broker(self._backend, limits, now_ms)
        notifications.on_woken = self._broker.on_woken
        notifications.on_cancelled = self._broker.cancellations.record
        self._stored = StoredLimits(
            self._backend, RateLimitFiles(settings, limits, self._broker.wake_all), self._broker.on_deleted
        )
        claims = ClaimNames(os.uname().nodename, port, now_ms())
        service = Service(
            self._backend,
            self._broker,
            self._stored,
            load_shedder=LoadShedder(lambda: self._backend.waiting, settings.max_store_waiting, metrics),
            settings=settings,
            claims=claims,
            metrics=metrics,
            statistics=StatisticsBuffer(),
            now_ms=now_ms,
        )
        self._transport = ThriftServer(service, settings, metrics)

    @classmethod
    async def start(cls, settings: Settings, now_ms: Callable[[], int]) -> Self:
        """Start serving."""
        parts = cls(settings, now_ms)
        await parts._stored.load_initial()
        await parts._transport.listen(parts._listener)
        return parts

    async def stop(self) -> None:
        """Answer calls in flight, and close."""
        self._broker.end_all_waits()
        await self._transport.drain(asyncio.get_running_loop().time() + _DRAIN_SECONDS)
        await self._backend.close()

    async def catch_up(self) -> None:
        """Do the monitor's work at once, after the clock was moved, and let waiting dequeues try again."""
        settings = self._settings
        await self._broker.reap(_ALL, server_age_ms=0, quiet_ms=0)  # even though the server has just started
        await self._backend.collect_finished(
            int(settings.succeeded_ttl_seconds * 1000), int(settings.failed_ttl_seconds * 1000), _ALL
        )
        self._broker.wake_all()

"""The parts of a server inside the calling process: no supervisor, admin port or background tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self

from pinlater.server.components import ProcessConfig, assemble
from pinlater.server.config.settings import Settings
from pinlater.server.metrics import Metrics
from pinlater.server.net.listeners import address_of, listen
from pinlater.server.stores.sqlite import open_sqlite

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
        metrics = Metrics()
        try:
            store = open_sqlite(settings, metrics, now_ms)
        except BaseException:
            self._listener.close()
            raise
        for task in store.tasks:
            task.close()
        self._parts = assemble(ProcessConfig(settings, [self._listener], None, settings.data_dir, 0), store, metrics)

    @classmethod
    async def start(cls, settings: Settings, now_ms: Callable[[], int]) -> Self:
        """Start serving."""
        server = cls(settings, now_ms)
        await server._parts.stored.load_initial()
        await server._parts.server.listen(server._listener)
        return server

    async def stop(self) -> None:
        """Answer calls in flight, and close."""
        self._parts.broker.end_all_waits()
        await self._parts.server.drain(asyncio.get_running_loop().time() + _DRAIN_SECONDS)
        await self._parts.store.backend.close()

    async def catch_up(self) -> None:
        """Do the monitor's work at once, after the clock was moved, and let waiting dequeues try again."""
        settings, broker = self._settings, self._parts.broker
        await broker.reap(_ALL, server_age_ms=0, quiet_ms=0)  # even though the server has just started
        await self._parts.store.backend.collect_finished(
            int(settings.succeeded_ttl_seconds * 1000), int(settings.failed_ttl_seconds * 1000), _ALL
        )
        broker.wake_all()

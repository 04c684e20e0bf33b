"""Looks from time to time how much room the store takes and has left, for the metrics."""

from __future__ import annotations

import asyncio
import logging
from typing import NoReturn

from pinlater.server.backends.store import ObservedStore
from pinlater.server.metrics import Metrics
from pinlater.server.metrics.shards import MOST_SHARDS

log = logging.getLogger(__name__)


class StoreWatch:
    """Asks every shard for its size, which is one question to each.

    Args:
        backend: the store.
        metrics: told of what is seen.
        interval_seconds: between two looks.
    """

    def __init__(self, backend: ObservedStore, metrics: Metrics, interval_seconds: float) -> None:
        self._backend = backend
        self._metrics = metrics
        self._interval_seconds = interval_seconds

    async def run(self) -> NoReturn:
        """Look until cancelled; to be run by one process of a server."""
        while True:
            try:
                await self.look()
            except Exception:
                log.debug("the store does not tell its size", exc_info=True)
            await asyncio.sleep(self._interval_seconds)

    async def look(self) -> None:
        """Look once; a shard that does not answer has no series until it does."""
        sizes = await self._backend.sizes()
        shown = dict(sorted(sizes.items(), key=lambda item: (len(item[0]), item[0]))[:MOST_SHARDS])
        free = {name: size.free_bytes for name, size in shown.items() if size.free_bytes is not None}
        used = {name: size.used_bytes for name, size in shown.items()}
        for gauge, values in ((self._metrics.store_bytes, used), (self._metrics.store_free_bytes, free)):
            gauge.keep(values)
            for name, value in values.items():
                gauge.set(name, value)

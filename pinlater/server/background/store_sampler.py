"""Sample how much space the store uses and has left, for the metrics."""

from __future__ import annotations

from pinlater.server.backends.server_store import ServerStore
from pinlater.server.metrics import Metrics
from pinlater.server.metrics.shards import MOST_SHARDS


class StoreSampler:
    """Asks every shard for its size, with one query each.

    Args:
        backend: the store.
        metrics: the gauges to set.
    """

    def __init__(self, backend: ServerStore, metrics: Metrics) -> None:
        self._backend = backend
        self._metrics = metrics

    async def sample(self) -> None:
        """Sample all shards once; a shard that does not answer has no series until it does."""
        sizes = await self._backend.sizes()
        shown = dict(sorted(sizes.items(), key=lambda item: (len(item[0]), item[0]))[:MOST_SHARDS])
        free = {name: size.free_bytes for name, size in shown.items() if size.free_bytes is not None}
        used = {name: size.used_bytes for name, size in shown.items()}
        for gauge, values in ((self._metrics.store_bytes, used), (self._metrics.store_free_bytes, free)):
            gauge.retain(values)
            for name, value in values.items():
                gauge.set(name, value)

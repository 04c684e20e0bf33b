"""Which shards the new jobs of a queue go to: all, or as many as its settings say, in the queue's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pinlater.model.queues import QueueSettings
from pinlater.server.backends.sharded.rendezvous import rank
from pinlater.server.backends.sharded.shard_handle import ShardHandle
from pinlater.server.backends.sharded.shard_registry import ShardRegistry


class QueueShards(NamedTuple):
    """The shards that take new jobs, as one queue uses them.

    Attributes:
        active: the shards that its new jobs go to, unhealthy ones included.
        others: the shards that take new jobs while no active one does, in this order.
    """

    active: Sequence[ShardHandle]
    others: Sequence[ShardHandle]


class ActiveShards:
    """Knows how many shards each queue uses, and which.

    Args:
        registry: the shards.
    """

    def __init__(self, registry: ShardRegistry) -> None:
        self._registry = registry
        self._counts: dict[str, int] = {}
        self._orders: dict[str, tuple[Sequence[ShardHandle], Sequence[ShardHandle]]] = {}

    def update(self, settings: Mapping[str, QueueSettings]) -> None:
        """Apply the settings of all queues."""
        counts = {queue: one.shard_count for queue, one in settings.items()}
        self._counts = {queue: count for queue, count in counts.items() if count is not None}
        self._orders = {queue: order for queue, order in self._orders.items() if queue in self._counts}

    def of(self, queue: str) -> QueueShards | None:
        """Return the shards of a queue; None if it uses all of them."""
        count = self._counts.get(queue)
        if count is None or count >= len(self._registry.enqueueable):
            return None
        order = self._order_of(queue)
        return QueueShards(order[:count], order[count:])

    def names(self, queue: str) -> tuple[str, ...]:
        """Return the names of the active shards of a queue; empty if it uses all."""
        found = self.of(queue)
        return () if found is None else tuple(handle.name for handle in found.active)

    def _order_of(self, queue: str) -> Sequence[ShardHandle]:
        """Return all shards that take new jobs, in the queue's order: its active shards are the first ones."""
        handles = self._registry.enqueueable
        known = self._orders.get(queue)
        if known is None or known[0] is not handles:
            order = tuple(sorted(handles, key=lambda handle: rank(handle.name, queue)))
            known = self._orders[queue] = handles, order
        return known[1]

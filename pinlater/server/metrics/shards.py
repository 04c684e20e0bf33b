"""Measure the calls to each shard, for a bounded number of existing shards."""

from __future__ import annotations

from collections.abc import Iterable

from pinlater.server.metrics.catalog import Metrics

MOST_SHARDS = 200
"""Number of shards with their own series; further ones, by name, are used but not measured."""


class ShardCalls:
    """Measures the calls to the shards of a store.

    Args:
        metrics: the metrics to update.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._names: frozenset[str] = frozenset()

    def follow(self, names: Iterable[str]) -> None:
        """Set the shards to measure; drop the series of all others."""
        kept = frozenset(sorted(names, key=lambda name: (len(name), name))[:MOST_SHARDS])
        for gone in self._names - kept:
            self._metrics.shard_call_seconds.forget(gone)
            self._metrics.shard_failures.forget(gone)
        for new in kept - self._names:
            self._metrics.shard_failures.add(new, 0)  # shown from the start, so that the first failure counts in a rate
        self._names = kept

    def note(self, name: str, seconds: float, *, is_answered: bool) -> None:
        """Record a call to a shard."""
        if name in self._names:
            self._metrics.shard_call_seconds.observe(name, seconds)
            if not is_answered:
                self._metrics.shard_failures.add(name)

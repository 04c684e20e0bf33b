"""What calls to each shard take, and how many fail: of shards that there are, and of no more than a page can show."""

from __future__ import annotations

from collections.abc import Iterable

from pinlater.server.metrics.catalog import Metrics

MOST_SHARDS = 200
"""Shards with series of their own; of more, the first by name. Their calls take place all the same."""


class ShardCalls:
    """Counts the calls of a fleet.

    Args:
        metrics: told of each call.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._names: frozenset[str] = frozenset()

    def follow(self, names: Iterable[str]) -> None:
        """Count these shards from now on; the series of all others go."""
        kept = frozenset(sorted(names, key=lambda name: (len(name), name))[:MOST_SHARDS])
        for gone in self._names - kept:
            self._metrics.shard_call_seconds.forget(gone)
            self._metrics.shard_failures.forget(gone)
        for new in kept - self._names:
            self._metrics.shard_failures.add(new, 0)  # shown from the start, so that a rate can be taken of the first
        self._names = kept

    def note(self, name: str, seconds: float, *, is_answered: bool) -> None:
        """Take note of a call."""
        if name in self._names:
            self._metrics.shard_call_seconds.observe(name, seconds)
            if not is_answered:
                self._metrics.shard_failures.add(name)

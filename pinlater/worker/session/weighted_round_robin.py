"""Chooses the queue that a dequeue polls first."""

from __future__ import annotations

from collections.abc import Mapping


class WeightedRoundRobin:
    """Smooth weighted round robin: each queue comes first in proportion to its weight, evenly spread.

    The other queues are polled after the first one, so none starves, and no process is idle while
    one of them has jobs.

    Args:
        weights: queue -> weight, at least one queue.
    """

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = dict(weights)
        self._total = sum(self._weights.values())
        self._credits = dict.fromkeys(self._weights, 0)

    def next(self) -> list[str]:
        """Return all queues in the order to poll them."""
        due = self._credits
        for queue, weight in self._weights.items():
            due[queue] += weight
        order = sorted(due, key=due.__getitem__, reverse=True)  # stable: equal ones stay in the given order
        due[order[0]] -= self._total
        return order

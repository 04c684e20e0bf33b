"""Shed load while the store is overloaded: refuse work that can wait before work that would be lost."""

from __future__ import annotations

from collections.abc import Callable

from pinlater.errors import NoHealthyShards
from pinlater.server.metrics import Metrics

_ENQUEUES_AT = 2
"""Enqueues are refused at this many times the limit of dequeues."""


class LoadShedder:
    """Refuses calls while too many requests wait for the store.

    A refused dequeue loses nothing: the jobs stay in the store, and the worker retries with growing pauses. A refused
    enqueue may lose a job that only its client knows. Acks are never refused, since they reduce the load.

    Args:
        waiting: returns the number of requests that wait for the store.
        most: limit above which dequeues are refused; enqueues are refused above twice that.
        metrics: counts refused calls.
    """

    def __init__(self, waiting: Callable[[], int], most: int, metrics: Metrics) -> None:
        self._waiting = waiting
        self._most, self._most_of_enqueues = most, most * _ENQUEUES_AT
        self._metrics = metrics

    def check_dequeue(self) -> None:
        """Refuse a dequeue while the store is overloaded.

        Raises:
            NoHealthyShards: it is overloaded. Clients of the original service retry this code, too.
        """
        if self._waiting() > self._most:
            raise self._refusal("dequeueJobs", self._most)

    def check_enqueue(self) -> None:
        """Refuse an enqueue while the store is heavily overloaded; raises as ``check_dequeue``."""
        if self._waiting() > self._most_of_enqueues:
            raise self._refusal("enqueueJobs", self._most_of_enqueues)

    def _refusal(self, method: str, most: int) -> NoHealthyShards:
        self._metrics.calls_shed.add(method)
        return NoHealthyShards(
            f"the store is overloaded: more than {most} requests wait for it, the limit for {method} "
            "(MAX_STORE_WAITING); try again later"
        )

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
        self._most = most
        self._metrics = metrics

    def check_dequeue(self) -> None:
        """Refuse a dequeue while the store is overloaded.

        Raises:
            NoHealthyShards: it is overloaded. Clients of the original service retry this code, too.
        """
        self._check("dequeueJobs", self._most)

    def check_enqueue(self) -> None:
        """Refuse an enqueue while the store is heavily overloaded; raises as ``check_dequeue``."""
        self._check("enqueueJobs", self._most * _ENQUEUES_AT)

    def _check(self, method: str, most: int) -> None:
        if self._waiting() > most:
            self._metrics.calls_shed.add(method)
            raise NoHealthyShards(
                f"the store is overloaded: more than {most} requests wait for it, the limit for {method} "
                "(MAX_STORE_WAITING); try again later"
            )

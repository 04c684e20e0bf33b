"""What the server does when its store is behind: it refuses work that can wait, before work that would be lost."""

from __future__ import annotations

from collections.abc import Callable

from pinlater.errors import NoHealthyShards
from pinlater.server.metrics import Metrics

_ENQUEUES_AT = 2
"""Enqueues are refused when this many times more waits than dequeues are refused for."""


class Overload:
    """Refuses calls while more requests wait for the store than it can soon do.

    A dequeue that is refused loses nothing: its jobs stay where they are, and the worker asks again, later and later.
    An enqueue that is refused may be a job that nobody else remembers. Acknowledgements are never refused: they are
    what makes the load smaller.

    Args:
        waiting: returns how many requests the store has not done.
        most: above this, dequeues are refused; above twice this, enqueues, too.
        metrics: told of what was refused.
    """

    def __init__(self, waiting: Callable[[], int], most: int, metrics: Metrics) -> None:
        self._waiting = waiting
        self._most = most
        self._metrics = metrics

    def check_dequeue(self) -> None:
        """Return if a dequeue may go on.

        Raises:
            NoHealthyShards: the store is behind. The code is one that clients of the original retry, too.
        """
        self._check("dequeueJobs", self._most)

    def check_enqueue(self) -> None:
        """Return if an enqueue may go on; raises as ``check_dequeue``."""
        self._check("enqueueJobs", self._most * _ENQUEUES_AT)

    def _check(self, method: str, most: int) -> None:
        if self._waiting() > most:
            self._metrics.calls_shed.add(method)
            raise NoHealthyShards(
                f"the store is behind: more requests wait for it than {most}, up to which {method} is taken "
                "(MAX_STORE_WAITING); try again later"
            )

"""The state of each queue that dequeues ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from pinlater.server.broker.parking import QueueState


class QueueStates:
    """Holds the state of each queue that a dequeue has asked for.

    Args:
        now_ms: the clock of the store.
        known_empty_seconds: as in ``QueueState``.
        on_due: called with a queue when one of its jobs has fallen due, and with that time in epoch milliseconds.
    """

    def __init__(
        self, now_ms: Callable[[], int], known_empty_seconds: float, on_due: Callable[[str, int], None]
    ) -> None:
        self.known_empty_seconds = known_empty_seconds
        self._now_ms = now_ms
        self._on_due = on_due
        self._queues: dict[str, QueueState] = {}

    def __iter__(self) -> Iterator[QueueState]:
        return iter(self._queues.values())

    def get_or_add(self, queue: str) -> QueueState:
        """Return the state of a queue, adding it if needed."""
        state = self._queues.get(queue)
        if state is None:
            on_due = partial(self._on_due, queue)
            state = self._queues[queue] = QueueState(self._now_ms, self.known_empty_seconds, on_due)
        return state

    def get(self, queue: str) -> QueueState | None:
        """Return the state of a queue; None if no dequeue has asked for it."""
        return self._queues.get(queue)

    def forget(self, queue: str) -> None:
        """Forget a queue that does not exist; dequeues that wait for it try again, and fail."""
        state = self._queues.pop(queue, None)
        if state is not None:
            state.close()

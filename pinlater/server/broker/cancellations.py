"""Running jobs that were recently asked to stop, and the calls that wait to hear of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import takewhile

from pinlater.server.broker.parking import Caller, ParkedCall

_KEPT_MS = 60_000
"""How long a job stays in the answers, so that a worker that was briefly away still hears of it."""

_MOST_KEPT = 10_000


class Cancellations:
    """Remembers which jobs were asked to stop, for workers that ask.

    A worker that misses one hears of it when it renews the job's lease.

    Args:
        now_ms: the clock of the store.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._asked: deque[tuple[int, str]] = deque(maxlen=_MOST_KEPT)
        self._waits: set[ParkedCall] = set()
        self._last_ms = 0
        self._is_stopping = False

    def record(self, descriptors: Iterable[str]) -> None:
        """Add jobs that were asked to stop."""
        self._last_ms = now = max(self._now_ms(), self._last_ms + 1)  # unique: workers ask for what came after it
        self._asked.extend((now, descriptor) for descriptor in descriptors)
        while self._asked and self._asked[0][0] < now - _KEPT_MS:
            self._asked.popleft()
        for wait in self._waits:
            wait.wake()

    def since(self, moment_ms: int) -> tuple[list[str], int]:
        """Return the jobs that were asked to stop after a moment, each once, and the moment to ask from next."""
        newest_first = takewhile(lambda asked: asked[0] > moment_ms, reversed(self._asked))
        found = dict.fromkeys(descriptor for _, descriptor in reversed([*newest_first]))
        return list(found), max(self._last_ms, self._now_ms() - 1)

    async def wait(self, moment_ms: int, seconds: float, caller: Caller) -> tuple[list[str], int]:
        """Return what ``since`` does, once there is a job, or after ``seconds``, or when the caller cannot wait."""
        found = self.since(moment_ms)
        if found[0] or caller.cannot_wait or self._is_stopping:
            return found
        wait = ParkedCall(caller, seconds)
        caller.park(wait)
        self._waits.add(wait)
        try:
            await wait.sleep()
        finally:
            self._waits.discard(wait)
            caller.unpark(wait)
            wait.end()
        return self.since(moment_ms)

    def stop(self) -> None:
        """Answer all waiting calls, and let none wait any more."""
        self._is_stopping = True
        for wait in list(self._waits):
            wait.end()

"""Parked dequeues: who waits for which queue, and what ends the wait."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

_LONGEST_TIMER_SECONDS = 3600.0
_DOUBT_MS = 500
"""After a failed call, the first dequeue in line looks again after this time, and again while calls fail."""

_TIMER_GRAIN_MS = 1
"""Timers of the event loop count whole milliseconds, and come late rather than early."""


class Caller:
    """One client connection, as far as a parked dequeue cares.

    Attributes:
        is_gone: whether nobody reads answers any more.
        is_hurried: whether a further call waits behind the present one, so that nothing is to be parked.
    """

    __slots__ = ("_parked", "is_gone", "is_hurried")

    def __init__(self) -> None:
        self.is_gone = False
        self.is_hurried = False
        self._parked: DequeueWait | None = None

    def interrupt(self) -> None:
        """End the wait of the dequeue that is parked for this connection, or about to be."""
        self.is_hurried = True
        if self._parked is not None:
            self._parked.end()

    def hang_up(self) -> None:
        """Note that nobody reads answers any more."""
        self.is_gone = True
        self.interrupt()

    def park(self, wait: DequeueWait | None) -> None:
        """Remember what ``interrupt`` has to end."""
        self._parked = wait


class DequeueWait:
    """The wait of one dequeue: woken any number of times, ended once.

    Args:
        limit: how many jobs the dequeue can take.
        seconds: how long it may wait in all.
    """

    __slots__ = ("_future", "_loop", "_timer", "is_over", "limit")

    def __init__(self, limit: int, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] | None = None
        self.limit = limit
        self.is_over = False
        self._timer = self._loop.call_later(seconds, self.end)

    async def __call__(self) -> None:
        """Sleep until woken or ended; at once when ended already."""
        if not self.is_over:
            self._future = self._loop.create_future()
            await self._future

    async def at_most(self, seconds: float) -> None:
        """Sleep no longer than this."""
        if self._loop.time() + seconds >= self._timer.when():
            return await self()
        alarm = self._loop.call_later(seconds, self.wake)
        try:
            await self()
        finally:
            alarm.cancel()

    def wake(self) -> None:
        """Let the dequeue look again."""
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def end(self) -> None:
        """Let the dequeue answer with what it has."""
        self.is_over = True
        self._timer.cancel()
        self.wake()


class ParkedQueue:
    """What the broker knows of one queue: who waits for it, and whether looking for jobs is in vain.

    A wait that was woken has to look, or to wake the next in its place. So no job lies there while somebody waits.

    Args:
        now_ms: the clock of the store.
        belief_seconds: a queue that was found empty is taken as empty for this long at most.

    Attributes:
        is_held: whether a limit of running jobs held jobs back when somebody last looked.
    """

    def __init__(self, now_ms: Callable[[], int], belief_seconds: float) -> None:
        self._now_ms = now_ms
        self._belief_seconds = belief_seconds
        # In order of arrival. In a dict, the first is found by a walk over all that were taken out before it.
        self._waits: OrderedDict[DequeueWait, None] = OrderedDict()
        self._woken: set[DequeueWait] = set()
        self._arrival_count = 0
        self._empty_since: int | None = None
        self._believed_until = 0.0
        self._due_ms: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.is_held = False

    @property
    def is_known_empty(self) -> bool:
        """Whether nothing has become claimable since a claim came back short, and that was not long ago."""
        return self._empty_since == self._arrival_count and time.monotonic() < self._believed_until

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for its jobs."""
        return bool(self._waits)

    @property
    def arrival_count(self) -> int:
        """A number that changes whenever jobs may have become claimable."""
        return self._arrival_count

    def add(self, wait: DequeueWait) -> None:
        """Let ``wait`` be woken when jobs arrive, after those that came before it."""
        self._waits[wait] = None

    def remove(self, wait: DequeueWait) -> None:
        """Undo ``add``."""
        self._waits.pop(wait, None)

    def looked(self, wait: DequeueWait) -> None:
        """Take note that a dequeue has looked for what it was woken for."""
        self._woken.discard(wait)

    def leave(self, wait: DequeueWait) -> None:
        """Let another wait look in place of one that was woken, and goes without having looked."""
        if wait in self._woken:
            self._woken.remove(wait)
            if not self.is_known_empty:
                self.wake_next()

    def came_back_short(self, arrival_count: int, next_due_ms: int | None, *, is_held: bool = False) -> None:
        """Take note of a claim that began at ``arrival_count`` and found fewer jobs than it wanted."""
        if arrival_count == self._arrival_count:
            self._empty_since = arrival_count
            self.is_held = is_held
            self.found_empty(next_due_ms)

    def found_empty(self, next_due_ms: int | None) -> None:
        """Take the queue as empty for another ``belief_seconds``."""
        self._believed_until = time.monotonic() + self._belief_seconds
        self._expect_not_later(next_due_ms)

    def arrived(self, count: int, due_ms: int | None = None) -> int:
        """Wake as many waits as ``count`` jobs can serve; later, when they are due only then.

        Returns:
            How many jobs nobody was woken for.
        """
        if due_ms is not None and due_ms > self._now_ms():
            self._expect_not_later(due_ms)
            return count
        self._arrival_count += 1
        while count > 0 and self._waits:
            count -= self.wake_next()
        return max(count, 0)

    def doubt(self) -> None:
        """Stop taking the queue as empty after a failed call; let the first dequeue in line look soon."""
        self._arrival_count += 1
        self._expect_not_later(self._now_ms() + _DOUBT_MS)

    def wake_all(self) -> None:
        """Let all waits look again: what holds them back may have changed."""
        self._arrival_count += 1
        for wait in list(self._waits):
            wait.wake()

    def end_all(self) -> None:
        """End all waits: the server stops."""
        for wait in list(self._waits):
            wait.end()

    def _expect_not_later(self, due_ms: int | None) -> None:
        if due_ms is not None and (self._due_ms is None or due_ms < self._due_ms):
            self._expect(due_ms)

    def _expect(self, due_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due_ms = due_ms
        delay_ms = max(due_ms - self._now_ms() - _TIMER_GRAIN_MS, 0)
        delay_seconds = min(delay_ms / 1000, _LONGEST_TIMER_SECONDS)
        self._timer = asyncio.get_running_loop().call_later(delay_seconds, self._look_whether_due)

    def _look_whether_due(self) -> None:
        self._timer = None
        assert self._due_ms is not None
        early_ms = self._due_ms - self._now_ms()
        if early_ms > _TIMER_GRAIN_MS:
            self._expect(self._due_ms)
        elif early_ms > 0:  # too short for a timer: when somebody waits, look in every turn of the loop
            pause_seconds = 0.0 if self._waits else _TIMER_GRAIN_MS / 1000
            self._timer = asyncio.get_running_loop().call_later(pause_seconds, self._look_whether_due)
        else:
            self._due_ms = None
            self._arrival_count += 1
            self.wake_next()

    def wake_next(self) -> int:
        """Wake the wait that is first in line; if it gets all it can take, it wakes the next.

        Returns:
            How many jobs it can take; 0: nobody waits.
        """
        if not self._waits:
            return 0
        wait, _ = self._waits.popitem(last=False)
        self._woken.add(wait)
        wait.wake()
        return wait.limit


class Parking:
    """All queues that anybody has asked for.

    Args:
        now_ms: the clock of the store.
        belief_seconds: as in ``ParkedQueue``.
    """

    def __init__(self, now_ms: Callable[[], int], belief_seconds: float) -> None:
        self.belief_seconds = belief_seconds
        self._now_ms = now_ms
        self._queues: dict[str, ParkedQueue] = {}

    def __iter__(self) -> Iterator[ParkedQueue]:
        return iter(self._queues.values())

    def at(self, queue: str) -> ParkedQueue:
        """Return what is known of a queue."""
        parked = self._queues.get(queue)
        if parked is None:
            parked = self._queues[queue] = ParkedQueue(self._now_ms, self.belief_seconds)
        return parked

    def get(self, queue: str) -> ParkedQueue | None:
        """Return what is known of a queue, if anybody has asked for it."""
        return self._queues.get(queue)

    def forget(self, queue: str) -> None:
        """Forget a queue that is not there; dequeues that wait for it learn that."""
        parked = self._queues.pop(queue, None)
        if parked is not None:
            parked.wake_all()

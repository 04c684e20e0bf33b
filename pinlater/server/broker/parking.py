"""Park calls that wait; track which dequeues wait for which queues, and wake them."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from pinlater.server.broker.call_slots import CallSlots
from pinlater.server.broker.due_timer import DueTimer

_UNCERTAIN_RETRY_MS = 500
"""After a failed call, the first dequeue in line tries again after this time, and again while calls fail."""

_POLLS = 3
_POLLS_SECONDS = 10.0
"""Clients poll a queue if this many dequeues that did not wait have found nothing within this time."""


class LastReport(NamedTuple):
    """The last report of a worker that came over a connection.

    Attributes:
        worker_id: the worker that sent it.
        sent_ms: when it was sent, epoch milliseconds by the worker's clock; identifies the report.
        keep_ms: how long it is kept.
        at: when it came, monotonic seconds.
        number: how many reports the worker has sent over the connection, including this one.
    """

    worker_id: str
    sent_ms: int
    keep_ms: int
    at: float
    number: int


class Caller:
    """The client connection of a call that may wait; it can end the wait.

    Attributes:
        slots: its call takes one of them while it is not parked; None: it needs none.
        has_slot: whether its call has one now.
        is_gone: whether nobody reads answers any more.
        cannot_wait: whether the call must be answered at once, for instance because another one is behind it.
        slept_seconds: total time its calls were parked, without the time spent answering them.
        report: the last report that a worker sent over it; None if there is none, or the worker has said that it ends.
    """

    __slots__ = ("_parked", "cannot_wait", "has_slot", "is_gone", "report", "slept_seconds", "slots")

    def __init__(self, slots: CallSlots | None = None) -> None:
        self.slots = slots
        self.has_slot = False
        self.is_gone = False
        self.cannot_wait = False
        self.slept_seconds = 0.0
        self.report: LastReport | None = None
        self._parked: ParkedCall | None = None

    def interrupt(self) -> None:
        """End the wait of the call that is parked for this connection, or is about to be."""
        self.cannot_wait = True
        if self._parked is not None:
            self._parked.end()

    def disconnect(self) -> None:
        """Mark the client as gone, and end its wait."""
        self.is_gone = True
        self.interrupt()

    def park(self, wait: ParkedCall) -> None:
        """Set the parked call that ``interrupt`` ends."""
        self._parked = wait

    def unpark(self, wait: ParkedCall) -> None:
        """Forget the parked call, which is over, and add up how long it slept."""
        self._parked = None
        self.slept_seconds += wait.slept_seconds

    def leave_slot(self) -> None:
        """Give back the slot of the call, if it has one."""
        if self.has_slot and self.slots is not None:
            self.has_slot = False
            self.slots.leave()


class ParkedCall:
    """A call that waits: woken any number of times, ended once.

    Args:
        caller: the connection of the call.
        seconds: how long it may wait in all.

    Attributes:
        is_over: whether it has ended.
        slept_seconds: total time it has slept, and then waited for a slot.
    """

    __slots__ = ("_caller", "_future", "_loop", "_timer", "is_over", "slept_seconds")

    def __init__(self, caller: Caller, seconds: float) -> None:
        self._caller = caller
        self.slept_seconds = 0.0
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] | None = None
        self.is_over = False
        self._timer = self._loop.call_later(seconds, self.end)

    async def sleep(self) -> None:
        """Sleep until woken or ended, without a slot; return at once if already ended."""
        if not self.is_over:
            caller, slots = self._caller, self._caller.slots
            self._future = self._loop.create_future()
            began = self._loop.time()
            caller.leave_slot()
            try:
                await self._future
                if slots is not None:
                    if not slots.take():
                        await slots.wait()
                    caller.has_slot = True
            finally:
                self.slept_seconds += self._loop.time() - began

    async def at_most(self, seconds: float) -> None:
        """Sleep until woken or ended, for ``seconds`` at most."""
        if self._loop.time() + seconds >= self._timer.when():
            return await self.sleep()
        alarm = self._loop.call_later(seconds, self.wake)
        try:
            await self.sleep()
        finally:
            alarm.cancel()

    def wake(self) -> None:
        """Wake the call, so that it checks again for what it waits for."""
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def end(self) -> None:
        """End the wait: the call is answered with what it has."""
        self.is_over = True
        self._timer.cancel()
        self.wake()


class DequeueWait(ParkedCall):
    """A waiting dequeue.

    Args:
        caller: the connection of the call.
        seconds: how long it may wait in all.
        limit: the number of jobs that it can take.
    """

    __slots__ = ("limit",)

    def __init__(self, caller: Caller, seconds: float, limit: int) -> None:
        super().__init__(caller, seconds)
        self.limit = limit


class QueueState:
    """Tracks one queue: which dequeues wait for it, and whether it is known to be empty.

    A dequeue is woken for each job that comes, or taken for the first of many: it must then try to claim, or wake the
    next one in its place. Otherwise a job could wait although a dequeue waits for it.

    A claim that found too few jobs says that the queue is empty, unless jobs came meanwhile that no dequeue was woken
    for: then ``arrival_count`` has changed since the claim began.

    Args:
        now_ms: the clock of the store.
        known_empty_seconds: how long a queue that was found empty counts as empty, at most.
        on_due: called when a job has fallen due, with that time in epoch milliseconds.

    Attributes:
        exists: whether a claim has succeeded, so that the queue is known to exist.
        is_at_running_limit: whether a limit of running jobs held jobs back when a claim last found too few.
        activity: a number that changes whenever a dequeue is woken, or has tried to claim.
        arrival_count: a number that changes whenever there may be claimable jobs that no dequeue was woken for.
    """

    def __init__(self, now_ms: Callable[[], int], known_empty_seconds: float, on_due: Callable[[int], None]) -> None:
        self.exists = False
        self.is_at_running_limit = False
        self.activity = 0
        self.arrival_count = 0
        self._now_ms = now_ms
        self._known_empty_seconds = known_empty_seconds
        # In order of arrival. To find the first one, a dict would walk over all removed entries.
        self._waits: OrderedDict[DequeueWait, None] = OrderedDict()
        self._woken: set[DequeueWait] = set()
        self._empty_since: int | None = None
        self._known_empty_until = 0.0
        self._may_be_more = False
        self._due_timer = DueTimer(now_ms, on_due, self._waits)
        self._empty_polls: deque[float] = deque(maxlen=_POLLS)

    # The line of dequeues

    @property
    def has_waiters(self) -> bool:
        """Whether a dequeue waits for its jobs."""
        return bool(self._waits)

    def add(self, wait: DequeueWait) -> None:
        """Add a dequeue to the end of the line."""
        self._waits[wait] = None

    def remove(self, wait: DequeueWait) -> None:
        """Remove a dequeue from the line."""
        self._waits.pop(wait, None)

    def wake_next(self) -> int:
        """Wake the first dequeue in line; if it leaves jobs, it wakes the next.

        Returns:
            The number of jobs that it can take; 0 if no dequeue waits.
        """
        if not self._waits:
            return 0
        wait, _ = self._waits.popitem(last=False)
        self._woken.add(wait)
        self.activity += 1
        wait.wake()
        return wait.limit

    def is_woken(self, wait: DequeueWait | None) -> bool:
        """Return whether this dequeue was woken, and has not tried to claim yet."""
        return wait in self._woken

    def record_attempt(self, wait: DequeueWait | None) -> None:
        """Record that a dequeue has tried to claim; None: one that has not waited."""
        self.activity += 1
        if wait is not None:
            self._woken.discard(wait)

    def leave(self, wait: DequeueWait) -> bool:
        """Wake another dequeue in place of one that was woken and leaves without having tried to claim.

        Returns:
            False if no other dequeue waits.
        """
        if wait not in self._woken:
            return True
        self._woken.remove(wait)
        return self.more_are_due()

    def wake_all(self) -> None:
        """Let all dequeues try again: limits may have changed."""
        self.arrival_count += 1
        for wait in list(self._waits):
            wait.wake()

    def end_all(self) -> None:
        """End the waits of all dequeues: the server is stopping."""
        for wait in list(self._waits):
            wait.end()

    def close(self) -> None:
        """Let all dequeues try again, and await no more jobs that fall due: the queue does not exist."""
        self._due_timer.cancel()
        self.wake_all()

    # The jobs that come

    def jobs_arrived(self, count: int, due_ms: int | None = None, *, or_more: bool = False) -> int:
        """Wake dequeues for ``count`` jobs that are claimable now, or set a timer for when they are due.

        Args:
            count: how many jobs.
            due_ms: when they are due; None: now.
            or_more: whether there may be more of them.

        Returns:
            The number of jobs that no dequeue was woken for.
        """
        if due_ms is not None and due_ms > self._now_ms():
            self._due_timer.expect(due_ms)
            return count
        self._may_be_more |= or_more
        while count > 0 and self._waits:
            count -= self.wake_next()
        if count > 0:
            self.arrival_count += 1
        return max(count, 0)

    def more_are_due(self) -> bool:
        """Let the first dequeue in line try, and new ones, too: a claim has left jobs, or was not made.

        Returns:
            Whether a dequeue waits.
        """
        self.arrival_count += 1
        return self.wake_next() > 0

    def sees_to(self, due_ms: int) -> bool:
        """Return whether a dequeue was woken for a job that is due then, or will be; set the timer if one waits."""
        if self._due_timer.has_told(due_ms):
            return True
        if self._waits:
            self._due_timer.expect(due_ms)
        return bool(self._waits)

    # Whether it is empty

    @property
    def is_known_empty(self) -> bool:
        """Whether a recent claim left no jobs, and a dequeue was woken for each job that came since."""
        return self._empty_since == self.arrival_count and time.monotonic() < self._known_empty_until

    @property
    def awaits_news(self) -> bool:
        """Whether a poll could find a job that is not known here yet."""
        return self.is_known_empty and not (self.is_at_running_limit or self._woken)

    @property
    def is_attended(self) -> bool:
        """Whether a dequeue was woken here for every job known here; for all others, other servers have woken one.

        False once jobs were announced without their number, until a claim has left none.
        """
        return self._empty_since == self.arrival_count and not self._may_be_more

    def record_shortfall(
        self, arrival_count: int, next_due_ms: int | None, *, is_at_running_limit: bool = False
    ) -> None:
        """Record a claim that began at ``arrival_count`` and left no job, or none that it could take."""
        if arrival_count == self.arrival_count:
            self._empty_since = arrival_count
            self._may_be_more = False
            self.is_at_running_limit = is_at_running_limit
            self.record_empty(next_due_ms)

    def record_empty(self, next_due_ms: int | None) -> None:
        """Take the queue as empty for another ``known_empty_seconds``."""
        self._known_empty_until = time.monotonic() + self._known_empty_seconds
        self._due_timer.expect(next_due_ms)

    def mark_uncertain(self) -> None:
        """Forget after a failed call that the queue is empty; let the first dequeue in line try soon."""
        self.arrival_count += 1
        self._due_timer.expect(self._now_ms() + _UNCERTAIN_RETRY_MS)

    # Polls

    @property
    def is_polled(self) -> bool:
        """Whether clients ask for jobs again and again without waiting, and find none."""
        return len(self._empty_polls) == _POLLS and time.monotonic() - self._empty_polls[0] < _POLLS_SECONDS

    def record_empty_poll(self) -> None:
        """Record a dequeue that did not wait and found nothing."""
        self._empty_polls.append(time.monotonic())

    def forget_polls(self) -> None:
        """Let the next polls ask the store."""
        self._empty_polls.clear()

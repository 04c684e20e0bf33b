"""Poll the queues that dequeues wait for, where jobs may arrive without a notification; one query for all queues.

Where the store can be polled for all queues at once, one of its servers does that and tells the others, which then need
not poll the queues it names; a server that hears nothing polls as if it were alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pinlater.errors import ServiceError
from pinlater.server.backends.poll_of_all import PollAll, PollNews, PollOfAll
from pinlater.server.backends.server_store import ServerStore
from pinlater.server.broker.queue_states import QueueStates
from pinlater.server.clock import elapsed_seconds

log = logging.getLogger(__name__)

_GROWTH = 1.25
_EARLIEST = 0.5
"""A poll includes all queues for which this share of the pause has passed, so that later polls coincide."""


_HORIZON_PAUSES = 2
"""A poll of all queues also reports jobs that fall due within this many of the longest pauses. Servers that hear of it
poll those queues before then, and so learn the exact time."""


@dataclass(slots=True)
class _PollSchedule:
    """How often one queue is polled, and when next, by the clock of the event loop.

    Attributes:
        pause: seconds between the last poll and the next.
        next_at: when the next poll is.
        since: when the schedule was last changed; what others have found before then does not count.
        is_left: whether the last poll was left out, since no dequeue waited for the queue.
    """

    pause: float
    next_at: float
    since: float
    is_left: bool = False

    def polled(self, at: float, longest: float) -> None:
        """Schedule the next poll after one that began at the given time."""
        self.pause = min(self.pause * _GROWTH, longest)
        self.next_at, self.since = at + self.pause, at

    def poll_by(self, at: float, now: float) -> None:
        """Move the next poll forward to the given time, unless it is earlier already."""
        self.next_at, self.since = min(self.next_at, at), now


class QueuePoller:
    """Polls queues that are known to be empty, as long as dequeues wait for them, or clients poll them without waiting.

    It polls often while jobs arrive, and less and less often while none do.

    Args:
        backend: the store.
        queues: the state of each queue; updated with what is found.
        poll_all: polls all queues of the store; None: it cannot.
    """

    def __init__(self, backend: ServerStore, queues: QueueStates, poll_all: PollAll | None) -> None:
        self._backend = backend
        self._poll_all = poll_all
        self._queues = queues
        self._pauses = backend.capabilities.poll_intervals
        self._now_ms = backend.now_ms
        self._schedules: dict[str, _PollSchedule] = {}
        self._news = asyncio.Event()
        self._sleeps_until = 0.0
        self._task: asyncio.Task[None] | None = None

    def follow(self, queue: str, *, is_busy: bool = False) -> None:
        """Poll a queue from now on, often if ``is_busy``: a dequeue has just claimed jobs from it."""
        schedule = self._schedules.get(queue)
        if schedule is not None and not (is_busy or schedule.is_left):
            return
        shortest, now = self._pauses.shortest, asyncio.get_running_loop().time()
        if schedule is None:
            schedule = self._schedules[queue] = _PollSchedule(shortest, now + shortest, now)
        else:
            if is_busy:
                schedule.pause = shortest
            schedule.is_left = False
            schedule.poll_by(now + shortest, now)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        else:
            self._sleep_no_longer(schedule)

    @property
    def leeway_ms(self) -> float:
        """How long jobs that have fallen due are left to the dequeues that were woken for them; 0: not at all."""
        return self._pauses.leeway * 1000

    def look_again(self, queue: str) -> None:
        """Poll a followed queue again as soon as no dequeue can still be on the way to its jobs."""
        schedule = self._schedules.get(queue)
        if schedule is not None:
            now = asyncio.get_running_loop().time()
            schedule.poll_by(now + self._pauses.leeway, now)
            self._sleep_no_longer(schedule)

    def _sleep_no_longer(self, schedule: _PollSchedule) -> None:
        """Wake the task if this poll is due before the task would wake up."""
        if schedule.next_at < self._sleeps_until:
            self._news.set()

    async def poll_all(self) -> PollOfAll | None:
        """Poll all queues of the store, and update those that are followed; return the result for other servers.

        Returns:
            None if the store cannot do that, or did not answer.
        """
        if self._poll_all is None:
            return None
        states = ((queue, self._queues.get(queue)) for queue in self._schedules)
        before = {queue: state.activity for queue, state in states if state is not None and state.awaits_news}
        try:
            poll = await self._poll_all(int(_HORIZON_PAUSES * self._pauses.longest * 1000))
        except ServiceError as error:
            log.debug("polling all queues failed: %s", error)
            return None
        if poll.is_whole:
            polled_at = self._moment(elapsed_seconds() - poll.asked_at)
            for schedule in self._schedules.values():
                if polled_at > schedule.since:
                    schedule.polled(polled_at, self._pauses.longest)
        self._tell(before, {queue: poll.first_due_ms.get(queue) for queue in before})
        return poll

    def hear(self, news: PollNews) -> None:
        """Skip the next polls of queues that another server has found to be empty."""
        age_ms = max(news.age_ms, self._now_ms() - news.asked_ms)  # it may have been delayed on the way
        polled_at = self._moment(age_ms / 1000)
        for queue, schedule in self._schedules.items():
            state = self._queues.get(queue)
            if state is not None and polled_at > schedule.since and news.tells_empty(queue):
                schedule.polled(polled_at, self._pauses.longest)
                if state.awaits_news:
                    state.record_empty(None)

    @staticmethod
    def _moment(age_seconds: float) -> float:
        return asyncio.get_running_loop().time() - age_seconds

    def stop(self) -> None:
        """Stop polling."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._schedules:
                await self._sleep()
                await self._look()
        finally:
            self._task = None

    async def _sleep(self) -> None:
        """Sleep until the next poll, or until another queue must be polled earlier."""
        self._news.clear()
        self._sleeps_until = min(schedule.next_at for schedule in self._schedules.values())
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._sleeps_until):
                await self._news.wait()

    async def _look(self) -> None:
        asked = self._due(asyncio.get_running_loop().time())
        if not asked:
            return
        before = {queue: state.activity for queue in asked if (state := self._queues.get(queue))}
        try:
            found = await self._backend.first_due(asked)
        except ServiceError as error:  # dequeues get the same error, and answer with it
            log.debug("polling for jobs failed: %s", error)
            self._let_polls_through(asked)
        except Exception:
            log.exception("polling for jobs failed")
            self._let_polls_through(asked)
        else:
            self._tell(before, found)

    def _due(self, now: float) -> list[str]:
        """Return the queues to poll now and schedule their next poll; drop queues that nobody asks for.

        A worker may just be busy with a job: the schedule of its queues is kept until a second poll is left out.
        """
        if not any(schedule.next_at <= now for schedule in self._schedules.values()):
            return []
        asked = []
        for queue, schedule in list(self._schedules.items()):
            if now < schedule.next_at - schedule.pause * _EARLIEST:
                continue
            state = self._queues.get(queue)
            is_left = state is None or not (state.has_waiters or state.is_polled)
            if state is None or (is_left and schedule.is_left):
                del self._schedules[queue]
                continue
            if is_left:
                schedule.is_left, schedule.next_at = True, now + self._pauses.longest
                continue
            schedule.polled(now, self._pauses.longest)
            if state.awaits_news:
                asked.append(queue)
        return asked

    def _let_polls_through(self, queues: Sequence[str]) -> None:
        for queue in queues:
            state = self._queues.get(queue)
            if state is not None:
                state.forget_polls()

    def _tell(self, before: Mapping[str, int], found: Mapping[str, int | None]) -> None:
        """Update queues with what was found, except those whose activity has changed: a newer claim knows better."""
        now_ms, leeway_ms = self._now_ms(), self.leeway_ms
        for queue, activity in before.items():
            state = self._queues.get(queue)
            if state is None:
                continue
            first_ms = found.get(queue)
            if queue not in found:
                state.wake_all()  # the queue was deleted: its dequeues try again, and fail
            elif state.activity != activity:
                continue
            elif first_ms is not None and abs(now_ms - first_ms) < leeway_ms:
                self.look_again(queue)
            elif first_ms is not None and first_ms <= now_ms:
                state.jobs_arrived(1, or_more=True)
            else:
                state.record_empty(first_ms)

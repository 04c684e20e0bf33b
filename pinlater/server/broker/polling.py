"""Polls queues that dequeues wait for, where jobs may come unannounced: one query for all queues."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pinlater.errors import ServiceError
from pinlater.server.backends.store import Store
from pinlater.server.broker.parking import Parking

log = logging.getLogger(__name__)

_GROWTH = 1.25
_EARLIEST = 0.5
"""A poll includes queues of which more than this share of the pause is over, so that later polls coincide."""


@dataclass(slots=True)
class _Pace:
    """How often one queue is polled, and when for the next time."""

    pause: float
    next_at: float


class QueuePoller:
    """Polls queues that are known to be empty, as long as dequeues wait for them.

    It polls often while jobs come, and ever more seldom when none do.

    Args:
        backend: the store.
        parking: the queues; updated with what was found.
        now_ms: the clock of the store.
    """

    def __init__(self, backend: Store, parking: Parking, now_ms: Callable[[], int]) -> None:
        self._backend = backend
        self._parking = parking
        self._pauses = backend.capabilities.poll_intervals
        self._now_ms = now_ms
        self._paces: dict[str, _Pace] = {}
        self._news = asyncio.Event()
        self._sleeps_until = 0.0
        self._task: asyncio.Task[None] | None = None

    def follow(self, queue: str, *, is_busy: bool = False) -> None:
        """Poll a queue from now on; often, if it ``is_busy``: a dequeue has just got jobs of it."""
        pace = self._paces.get(queue)
        if pace is not None and not is_busy:
            return
        shortest = self._pauses.shortest
        soon = asyncio.get_running_loop().time() + shortest
        if pace is None:
            pace = self._paces[queue] = _Pace(shortest, soon)
        else:
            pace.pause, pace.next_at = shortest, min(pace.next_at, soon)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        elif pace.next_at < self._sleeps_until:
            self._news.set()

    def stop(self) -> None:
        """End all polls."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._paces:
                await self._sleep()
                await self._look()
        finally:
            self._task = None

    async def _sleep(self) -> None:
        """Sleep until the next poll, or until another queue has to be polled earlier."""
        self._news.clear()
        self._sleeps_until = min(pace.next_at for pace in self._paces.values())
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._sleeps_until):
                await self._news.wait()

    async def _look(self) -> None:
        asked = self._due(asyncio.get_running_loop().time())
        if not asked:
            return
        try:
            found = await self._backend.first_due(asked)
        except ServiceError as error:  # dequeues meet the same error, and answer with it
            log.debug("the poll for jobs failed: %s", error)
        except Exception:
            log.exception("the poll for jobs failed")
        else:
            self._tell(asked, found)

    def _due(self, now: float) -> list[str]:
        """Return the queues to poll, and set when each is next; stop polling queues that no dequeue waits for."""
        if not any(pace.next_at <= now for pace in self._paces.values()):
            return []
        asked = []
        for queue, pace in list(self._paces.items()):
            if now < pace.next_at - pace.pause * _EARLIEST:
                continue
            parked = self._parking.get(queue)
            if parked is None or not parked.is_awaited:
                del self._paces[queue]
                continue
            pace.pause = min(pace.pause * _GROWTH, self._pauses.longest)
            pace.next_at = now + pace.pause
            if parked.is_known_empty and not parked.is_held:
                asked.append(queue)
        return asked

    def _tell(self, asked: Sequence[str], found: Mapping[str, int | None]) -> None:
        now_ms = self._now_ms()
        for queue in asked:
            parked = self._parking.get(queue)
            if parked is None:
                continue
            first_ms = found.get(queue)
            if queue not in found:
                parked.wake_all()  # the queue was deleted: dequeues that wait for it have to learn that
            elif first_ms is not None and first_ms <= now_ms:
                parked.arrived(1)
            else:
                parked.found_empty(first_ms)

"""Looking at queues that somebody waits for, where jobs may come unheard: one look at the store for all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pinlater.errors import ServiceError
from pinlater.server.backends.contract import Backend
from pinlater.server.broker.parking import Parking

log = logging.getLogger(__name__)

_GROWTH = 1.25
_EARLIEST = 0.5
"""A look takes along the queues that have waited for more than this share of their pause: so they come together."""


@dataclass(slots=True)
class _Pace:
    """How often one queue is looked at, and when for the next time."""

    pause: float
    next_at: float


class Looker:
    """Looks at queues that are known to be empty as long as somebody waits for them.

    Often while jobs come, and ever more seldom when none do.

    Args:
        backend: the store.
        parking: the queues; are told what was seen.
        now_ms: the clock of the store.
    """

    def __init__(self, backend: Backend, parking: Parking, now_ms: Callable[[], int]) -> None:
        self._backend = backend
        self._parking = parking
        self._pauses = backend.capabilities.look_pauses
        self._now_ms = now_ms
        self._paces: dict[str, _Pace] = {}
        self._news = asyncio.Event()
        self._sleeps_until = 0.0
        self._task: asyncio.Task[None] | None = None

    def follow(self, queue: str, *, is_busy: bool = False) -> None:
        """Look at a queue from now on; often, if it ``is_busy``: somebody has just got jobs of it."""
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
        """Look no more."""
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
        """Until the next look, or until another queue is to be looked at earlier."""
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
        except ServiceError as error:  # whoever asks for jobs is told as well
            log.debug("nobody knows whether there are jobs: %s", error)
        except Exception:
            log.exception("the queues that somebody waits for could not be looked at")
        else:
            self._tell(asked, found)

    def _due(self, now: float) -> list[str]:
        """Return the queues to look at, and note when they are next; those that nobody waits for are left alone."""
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
                parked.wake_all()  # the queue is gone: those who wait for it are to learn that
            elif first_ms is not None and first_ms <= now_ms:
                parked.arrived(1)
            else:
                parked.found_empty(first_ms)

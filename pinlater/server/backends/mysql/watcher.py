"""Looks for jobs that other servers stored, where a dequeue has come back short and may be waiting.

MySQL tells nobody anything, so somebody has to look: one packet for all queues of a shard that are due for a look,
often while jobs come, and ever more seldom when they do not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from pinlater.errors import ServiceError
from pinlater.server.backends.arrivals import Arrivals
from pinlater.server.backends.mysql.claim import BEGIN
from pinlater.server.backends.mysql.connection import Connection, Result
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.search import Queue

log = logging.getLogger(__name__)

SHORTEST_SECONDS = 0.02
LONGEST_SECONDS = 1.5
"""Pause between two looks at a queue: while jobs come, and when none has come for long."""

GROWTH = 1.25
INTEREST_SECONDS = 12.0
"""A queue is looked at for so long after a dequeue came back short; whoever waits asks again before that is over."""


@dataclass(slots=True)
class _Watch:
    """One queue, and when it is looked at; ``is_armed`` until jobs were found and told of."""

    queue: Queue
    pause: float
    next_at: float
    until: float
    is_armed: bool = True


class Watcher:
    """Tells of due jobs.

    Args:
        database: of the shard.
        arrivals: is told.
    """

    def __init__(self, database: Database, arrivals: Arrivals) -> None:
        self._database = database
        self._arrivals = arrivals
        self._watches: dict[int, _Watch] = {}
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    def watch(self, queue: Queue, *, is_busy: bool) -> None:
        """Look at a queue from now on, often if it ``is_busy``: a dequeue got some jobs, but fewer than it wanted."""
        now = asyncio.get_running_loop().time()
        watch = self._watches.get(queue.id)
        pause = SHORTEST_SECONDS if is_busy or watch is None else watch.pause
        if watch is not None and watch.is_armed and not is_busy:
            watch.until = now + INTEREST_SECONDS
            return
        self._watches[queue.id] = _Watch(queue, pause, now + pause, now + INTEREST_SECONDS)
        self._news.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._watches:
                await self._sleep()
                now = asyncio.get_running_loop().time()
                self._watches = {key: watch for key, watch in self._watches.items() if watch.until > now}
                due = [watch for watch in self._watches.values() if watch.is_armed and watch.next_at <= now]
                if due:
                    await self._look(due)
        finally:
            self._task = None

    async def _sleep(self) -> None:
        """Until the next look, the end of interest in all queues, or another queue to be looked at."""
        self._news.clear()
        moment = min((watch.next_at if watch.is_armed else watch.until) for watch in self._watches.values())
        with suppress(TimeoutError):
            async with asyncio.timeout_at(moment):
                await self._news.wait()

    async def _look(self, watches: Sequence[_Watch]) -> None:
        for watch in watches:
            watch.pause = min(watch.pause * GROWTH, LONGEST_SECONDS)
            watch.next_at += watch.pause
        try:
            found = await self._database.read(lambda connection: self._first_pending(connection, watches))
        except ServiceError as error:  # whoever asks for jobs is told as well
            log.debug("nobody knows whether there are jobs: %s", error)
            return
        now = self._database.now_ms()
        for watch in watches:
            levels = len(watch.queue.prefixes)
            if any(row[0] <= now for result in found[:levels] for row in result.rows):
                watch.is_armed = False
                self._arrivals.on_arrival(watch.queue.name, None)
            found = found[levels:]

    async def _first_pending(self, connection: Connection, watches: Sequence[_Watch]) -> list[Result]:
        return await connection.run(
            *(
                self._database.queries.bind("first_pending", queue=watch.queue.id, priority=priority, floor=BEGIN)
                for watch in watches
                for priority in range(1, len(watch.queue.prefixes) + 1)
            )
        )

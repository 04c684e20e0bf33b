"""Work that has to be done even if the store cannot do it now: retried until it succeeds."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from pinlater.errors import ServiceError

log = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0
"""Pause between two rounds of attempts."""

MAX_TASKS = 10_000
"""Most tasks in the queue; if there are more, the oldest are dropped."""

Work = Callable[[], Awaitable[None]]
"""A task that is safe to repeat; a ``ServiceError`` means that it has to be retried."""


class RetryQueue:
    """Retries tasks until they succeed. It runs only while there are any."""

    def __init__(self) -> None:
        self._work: deque[Work] = deque(maxlen=MAX_TASKS)
        self._task: asyncio.Task[None] | None = None

    def add(self, work: Work) -> None:
        """Add a task; it is tried soon."""
        self._work.append(work)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop retrying; tasks that are left are dropped."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._work:
                for _ in range(len(self._work)):
                    await self._attempt(self._work.popleft())
                if self._work:
                    await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._task = None

    async def _attempt(self, work: Work) -> None:
        try:
            await work()
        except ServiceError as error:
            log.debug("to be retried: %s", error)
            self._work.append(work)
        except Exception:
            log.exception("a task failed and is not retried")

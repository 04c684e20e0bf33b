"""Work that has to be done even if the store cannot do it now: tried again until it succeeds."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from pinlater.errors import ServiceError

log = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0
"""Between two rounds of attempts."""

MOST = 10_000
"""Pieces of work; of more, the oldest are given up."""

Work = Callable[[], Awaitable[None]]
"""One piece of work, safe to repeat; a ``ServiceError`` means that it has to be tried again."""


class RetryQueue:
    """Pieces of work, and the task that tries them again and again. There is no task while there is no work."""

    def __init__(self) -> None:
        self._work: deque[Work] = deque(maxlen=MOST)
        self._task: asyncio.Task[None] | None = None

    def add(self, work: Work) -> None:
        """Do a piece of work at the next opportunity."""
        self._work.append(work)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Try no more."""
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
            log.debug("to be tried again: %s", error)
            self._work.append(work)
        except Exception:
            log.exception("a piece of work failed for good")

"""Runs ``async def run`` of jobs on one event loop, kept as long as the process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

_LEFTOVER_SECONDS = 5.0

log = logging.getLogger(__name__)


class Coroutines:
    """Runs one coroutine at a time; what it left running is cancelled before the next one begins."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._task: asyncio.Task[Any] | None = None

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run ``coroutine`` to its end. Raises what it raises."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        loop = self._runner.get_loop()
        try:
            self._runner.run(self._noted(coroutine))
        finally:
            self._task = None
            leftovers = asyncio.all_tasks(loop)
            if leftovers:
                loop.run_until_complete(_cancel(leftovers))

    def cancel(self) -> bool:
        """Cancel the coroutine, from a signal handler; return False if there is none, or if it is not waiting.

        The handler has then interrupted the job's own code, and can raise what it wants to be raised there.
        """
        task = self._task
        if task is None or asyncio.current_task(task.get_loop()) is task:
            return False
        task.get_loop().call_soon_threadsafe(task.cancel)
        return True

    async def _noted(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._task = asyncio.current_task()
        await coroutine

    def close(self) -> None:
        """Close the loop."""
        if self._runner is not None:
            self._runner.close()


async def _cancel(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    _, deaf = await asyncio.wait(tasks, timeout=_LEFTOVER_SECONDS)
    if deaf:
        log.warning("%d tasks that a job left running do not let themselves be cancelled", len(deaf))

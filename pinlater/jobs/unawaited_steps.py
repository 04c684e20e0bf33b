"""The steps of coroutine functions that a job has called and that have not ended yet: a job has to await them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any


class UnawaitedSteps:
    """Finds out whether a run has returned without some of its steps.

    A step that has not begun when the run returns was forgotten, unless its task was cancelled, or another step failed
    or was cancelled after it was called: then its turn may not have come. One that has begun may be the loser of a
    race, so that is only logged.
    """

    def __init__(self) -> None:
        self._called: dict[str, Coroutine[Any, Any, Any]] = {}
        self._given_up: list[Coroutine[Any, Any, Any]] = []
        self._running: dict[str, asyncio.Task[Any] | None] = {}
        self._error: TypeError | None = None

    def __bool__(self) -> bool:
        return bool(self._called or self._given_up or self._running or self._error)

    def call(self, name: str, step: Coroutine[Any, Any, Any]) -> None:
        """Add a step that was called, with its coroutine."""
        self._called[name] = step

    def begin(self, name: str) -> None:
        """Note that a step begins, in the task that awaits it."""
        self._called.pop(name, None)
        self._running[name] = asyncio.current_task()

    def end(self, name: str, *, has_failed: bool) -> None:
        """Note that a step has ended."""
        self._running.pop(name, None)
        if has_failed:
            self._given_up += self._called.values()
            self._called.clear()

    def check(self, log: logging.LoggerAdapter[logging.Logger]) -> TypeError | None:
        """Return the error of a run that has returned; None if it has forgotten no step. Only the first call counts.

        Args:
            log: logger for steps that still run.
        """
        if self._error is None and self:
            self._error = self._found_error()
            for name, task in self._running.items():
                if task is not None and not task.cancelling():
                    log.warning("step %r still ran when run returned, and is cancelled; await it to have its end", name)
        return self._error

    def _found_error(self) -> TypeError | None:
        tasks = _tasks_by_coroutine()
        for step in self._given_up:
            if step not in tasks and getcoroutinestate(step) == CORO_CREATED:
                step.close()  # or Python would complain that it was not awaited
        for name, step in self._called.items():
            task = tasks.get(step)
            if getcoroutinestate(step) != CORO_CREATED or (task is not None and task.cancelling()):
                continue
            if task is None:
                step.close()
            return TypeError(
                f"step {name!r} was not awaited, so it has not run: its function is a coroutine function; "
                f"write await context.step({name!r}, …), in an async def run"
            )
        return None


def _tasks_by_coroutine() -> dict[object, asyncio.Task[Any]]:
    try:
        return {task.get_coro(): task for task in asyncio.all_tasks()}
    except RuntimeError:  # no loop runs here
        return {}

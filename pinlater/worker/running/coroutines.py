"""Runs ``async def run`` of jobs on one event loop, which lives as long as the process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from typing import Any
from weakref import WeakSet

from pinlater.errors import JobInterrupted
from pinlater.worker.running.loop_threads import LoopThreads
from pinlater.worker.running.task_group import TaskGroup, family

_LEFTOVER_SECONDS = 5.0

CHECK_SECONDS = 0.1
"""Interval of the check whether waiting jobs are to stop."""

log = logging.getLogger(__name__)


def never_over() -> bool:
    """Return False."""
    return False


def ignore_return() -> None:
    """Do nothing."""


async def cut_steps() -> None:
    """Wait for no step."""


def unlimited(coroutine: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
    """Return a coroutine as it is."""
    return coroutine


class Coroutines:
    """Runs one coroutine at a time; what it left running is cancelled before the next one begins.

    Args:
        limited: returns what to run for a coroutine: itself, or within limits.
    """

    def __init__(self, limited: Callable[[Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]] = unlimited) -> None:
        self._limited = limited
        self._runner: asyncio.Runner | None = None
        self._threads: LoopThreads | None = None
        self._deaf: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._task: asyncio.Task[Any] | None = None
        self._is_over: Callable[[], bool] = never_over

    def run(
        self,
        coroutine: Coroutine[Any, Any, Any],
        is_over: Callable[[], bool] = never_over,
        on_return: Callable[[], object] = ignore_return,
        let_steps_end: Callable[[], Awaitable[object]] = cut_steps,
    ) -> Any:
        """Run ``coroutine`` to its end and return its result. Raises what it raises.

        Args:
            coroutine: coroutine of a job.
            is_over: polled while it waits; each time that it returns True, the coroutine is cancelled.
            on_return: called when it has returned, before tasks that it left go on or are cancelled.
            let_steps_end: called when it was interrupted, before they are cancelled.
        """
        group = TaskGroup(None)
        tracked = self._limited(self._tracked(coroutine, group, on_return, let_steps_end))
        runner = self._usable_runner()
        self._is_over = is_over
        try:
            # In a new context: the runner's lives as long as the runner.
            return runner.run(tracked, context=copy_context())
        finally:
            self._task, self._is_over = None, never_over
            self._end_leftovers(runner.get_loop(), group)

    def _end_leftovers(self, loop: asyncio.AbstractEventLoop, group: TaskGroup) -> None:
        leftovers = asyncio.all_tasks(loop).difference(self._deaf)  # those that ignored it before are not waited for
        if leftovers:
            self._deaf.update(leftovers)
            loop.run_until_complete(cancel_all(leftovers))
        if self._threads is not None:
            self._threads.leave(group)

    def _usable_runner(self) -> asyncio.Runner:
        # A plain job can get our loop from get_event_loop(), and close it; any job can shut its threads down.
        if self._runner is None or self._runner.get_loop().is_closed() or (self._threads and self._threads.are_shut):
            self.close()
            self._runner = asyncio.Runner()
            self._threads = LoopThreads(self._runner.get_loop())
            self._cancel_if_over()
        assert self._threads is not None  # they come with the runner
        self._threads.enter()
        return self._runner

    def _cancel_if_over(self) -> None:
        """Cancel the coroutine if it is to end. One timer serves all jobs of the loop, so short jobs pay nothing."""
        assert self._runner is not None  # whose loop calls us
        if self._task is not None and not self._task.done() and self._is_over():
            self._task.cancel()
        self._runner.get_loop().call_later(CHECK_SECONDS, self._cancel_if_over)

    def cancel(self) -> bool:
        """Cancel the coroutine, from a signal handler; return False if there is none, or if it is not waiting.

        In these cases, the handler has interrupted the job's own code, so it can raise an exception there itself.
        """
        task = self._task
        if task is None or asyncio.current_task(task.get_loop()) is task:
            return False
        task.get_loop().call_soon_threadsafe(task.cancel)
        return True

    async def _tracked(
        self,
        coroutine: Coroutine[Any, Any, Any],
        group: TaskGroup,
        on_return: Callable[[], object],
        let_steps_end: Callable[[], Awaitable[object]],
    ) -> Any:
        self._task = asyncio.current_task()
        family.set(group)
        try:
            returned = await coroutine
        except JobInterrupted:
            await let_steps_end()
            raise
        on_return()
        return returned

    def close(self) -> None:
        """Close the loop; not the runner, which would wait for threads that jobs left behind in the loop's executor."""
        if self._runner is None or (loop := self._runner.get_loop()).is_closed():
            return
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def cancel_all(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancel tasks that a job left running, and wait for their end for some seconds."""
    for task in tasks:
        task.cancel()
    _, remaining = await asyncio.wait(tasks, timeout=_LEFTOVER_SECONDS)
    if remaining:
        log.warning("%d tasks that a job left running ignore their cancellation", len(remaining))

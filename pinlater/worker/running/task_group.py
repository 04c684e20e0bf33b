"""Tracks which job an asyncio task belongs to, so that leftover tasks end with their job."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any
from weakref import WeakSet


class TaskGroup:
    """Holds the tasks of one job.

    Attributes:
        job: the job.
        tasks: tasks that it created, directly or through others; None: none.
        calls: its blocking calls that run in threads, or wait for one; None: none.
    """

    __slots__ = ("calls", "job", "tasks")

    def __init__(self, job: object) -> None:
        self.job = job
        self.tasks: WeakSet[asyncio.Task[Any]] | None = None  # few jobs make any
        self.calls: set[Future[Any]] | None = None  # likewise

    def add_call(self, call: Future[Any]) -> None:
        """Hold a blocking call until it has ended."""
        if self.calls is None:
            self.calls = set()
        self.calls.add(call)
        call.add_done_callback(self.calls.discard)

    def unfinished(self) -> set[asyncio.Task[Any]]:
        """Return the tasks that still run."""
        return {task for task in self.tasks if not task.done()} if self.tasks else set()


family: ContextVar[TaskGroup | None] = ContextVar("family", default=None)
"""Task group of the running job; its tasks inherit it."""


def new_task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    **options: Any,
) -> asyncio.Task[Any]:
    """Create a task as the loop would, and add it to its job's group."""
    task = asyncio.Task(coroutine, loop=loop, **options)
    found = family.get()
    if found is not None:
        if found.tasks is None:
            found.tasks = WeakSet()
        found.tasks.add(task)
    return task

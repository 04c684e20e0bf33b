"""The threads in which coroutines of jobs make blocking calls, as by ``asyncio.to_thread``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from pinlater.worker.running.task_group import TaskGroup, family

_P = ParamSpec("_P")
_T = TypeVar("_T")

log = logging.getLogger(__name__)


class _Executor(ThreadPoolExecutor):
    """What an event loop has by default, which also notes whose calls run."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="asyncio")

    def submit(self, call: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Make a call in a thread, as the loop asks for it in the context of a job."""
        future = super().submit(call, *args, **kwargs)
        found = family.get()
        if found is not None:
            found.add_call(future)
        return future


class LoopThreads:
    """Gives an event loop its threads, and others once a job has left a call in them.

    A job that is stopped leaves its blocking calls behind. There are few threads, and if all of them were kept busy by
    jobs of the past, the calls of all later jobs would wait for ever.

    Args:
        loop: which runs the jobs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._executor = _Executor()
        loop.set_default_executor(self._executor)

    def leave(self, group: TaskGroup) -> None:
        """Let the calls to come have threads of their own if those of a job that has ended still run."""
        if not group.calls:
            return
        log.warning("%d blocking calls go on in their threads, although their job has ended", len(group.calls))
        former, self._executor = self._executor, _Executor()
        self._loop.set_default_executor(self._executor)
        former.shutdown(wait=False)

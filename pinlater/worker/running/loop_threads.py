"""The threads in which coroutines of jobs make blocking calls, such as with ``asyncio.to_thread``."""

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
    """The default executor of an event loop, which also records whose calls run.

    Attributes:
        is_shut: whether it takes no more calls.
    """

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="asyncio")
        self.is_shut = False

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls."""
        self.is_shut = True
        super().shutdown(wait, cancel_futures=cancel_futures)

    def submit(self, call: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Make a call in a thread; the loop calls this in the context of a job."""
        future = super().submit(call, *args, **kwargs)
        found = family.get()
        if found is not None:
            found.add_call(future)
        return future


class LoopThreads:
    """Gives an event loop its threads, and new ones once a job has left a call in them.

    A job that is stopped leaves its blocking calls behind. There are few threads, and if such calls kept all of them
    busy, the calls of all later jobs would wait for ever.

    Args:
        loop: the loop that runs the jobs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._executor = _Executor()
        self.enter()

    def enter(self) -> None:
        """Use our threads for later calls, whatever an earlier job has done to the loop."""
        self._loop.set_default_executor(self._executor)

    def leave(self, group: TaskGroup) -> None:
        """Use our threads for later calls, whatever a job that has ended did; new ones if its calls still run."""
        if group.calls:
            log.warning("%d blocking calls go on in their threads, although their job has ended", len(group.calls))
            former, self._executor = self._executor, _Executor()
            former.shutdown(wait=False)
        self.enter()

    @property
    def are_shut(self) -> bool:
        """Whether a job has shut the threads down; then the loop never makes another call in a thread.

        They may have been its own. Only the loop knows that, and loops of asyncio say it.
        """
        return self._executor.is_shut or getattr(self._loop, "_executor_shutdown_called", False)

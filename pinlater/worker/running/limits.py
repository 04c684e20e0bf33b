"""Enforces the time limits of jobs that run in the main thread.

A soft limit is an exception in the job, raised by a timer's signal. If a job ignores it, or keeps the interpreter busy,
the hard limit applies: the master kills the process, and the keeper reports the job.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from os import getpid
from time import monotonic
from types import FrameType
from typing import Protocol

from pinlater.jobs.step_deadline import StepDeadline
from pinlater.worker.running.coroutines import Coroutines
from pinlater.worker.running.run_limits import LimitExceeded, RunLimits
from pinlater.worker.running.step_limits import StepLimits
from pinlater.worker.running.timer import Timer, new_timer
from pinlater.worker.running.with_entries import RETRY_SECONDS, Postponement, is_entering
from pinlater.worker.session.saver import Saver

KillAt = Callable[[float | None], object]
"""Asks the master to kill this process at a monotonic time, which may be inf; None cancels that."""


def never_kill(_: float | None) -> None:
    """Ignore the time, where there is no master."""


class Limits(Protocol):
    """Runs jobs within limits.

    Attributes:
        coroutines: runs ``async def run`` of the jobs, within the same limits.
    """

    coroutines: Coroutines

    def run(self, run_limits: RunLimits, call: Callable[[], object]) -> None:
        """Call ``call``, and raise ``JobTimeout`` in it when a limit is exceeded. Raises what it raises."""

    def limit_step(self, deadline: StepDeadline) -> AbstractContextManager[None]:
        """Return a context in which ``StepTimeout`` is raised at the deadline of a step."""


class NoLimits:
    """Runs jobs without limits, for a debugger."""

    def __init__(self) -> None:
        self.coroutines = Coroutines()

    def run(self, run_limits: RunLimits, call: Callable[[], object]) -> None:  # noqa: ARG002 - of Limits
        """Call ``call``."""
        call()

    def limit_step(self, deadline: StepDeadline) -> AbstractContextManager[None]:  # noqa: ARG002 - of Limits
        """Return a context without a limit."""
        return nullcontext()


class TimeLimits:
    """Runs one job at a time within limits, in the main thread.

    Args:
        kill_at: sets the hard limit.
        saver: while it calls the server, the soft limit is postponed.

    Attributes:
        coroutines: runs ``async def run``; at the soft limit, it is cancelled.
    """

    def __init__(self, kill_at: KillAt, saver: Saver) -> None:
        self.coroutines = Coroutines()
        self._kill_at = kill_at
        self._saver = saver
        self.limit_step = StepLimits(lambda: saver.is_saving).limit
        self._pid = getpid()
        self._run_limits: RunLimits | None = None
        self._exceeded: LimitExceeded | None = None
        self._postponement = Postponement()
        self._timer: Timer | None = None

    def run(self, run_limits: RunLimits, call: Callable[[], object]) -> None:
        """Call ``call``, and raise ``JobTimeout`` in it when a limit is exceeded. Raises what it raises."""
        self._kill_at(run_limits.kill_at)
        run_limits.begin(self._kill_at)
        try:
            # Signals reach only the main thread; a test may run jobs in another one.
            if not run_limits.is_soft or threading.current_thread() is not threading.main_thread():
                call()
            else:
                self._run_with_soft_limit(run_limits, call)
        finally:
            if getpid() == self._pid:  # a fork of the job must not lift its limit
                run_limits.end()
                self._kill_at(None)

    def _run_with_soft_limit(self, run_limits: RunLimits, call: Callable[[], object]) -> None:
        timer = self._own_timer()
        timer.open(self._on_timer)
        self._run_limits, self._exceeded = run_limits, None
        try:
            timer.set(run_limits.next_check_in(monotonic()))
            call()
        except asyncio.CancelledError as error:
            if self._exceeded is not None:
                raise self._exceeded.error().with_traceback(error.__traceback__) from None
            raise
        finally:
            self._run_limits = None  # first: a signal that is still pending must not interrupt what follows
            if getpid() == self._pid:
                timer.close()

    def _own_timer(self) -> Timer:
        if self._timer is None:
            self._timer = new_timer()
        return self._timer

    def _on_timer(self, _number: int, frame: FrameType | None) -> None:
        run_limits = self._run_limits
        if run_limits is None:
            return
        # A call cut off in the middle would leave the connection unusable, and a lock might stay locked.
        if self._saver.is_saving or self._postponement.is_needed(is_unsafe=is_entering(frame)):
            self._own_timer().set(RETRY_SECONDS)
            return
        exceeded = run_limits.due(monotonic())
        self._own_timer().set(run_limits.next_check_in(monotonic()))
        if exceeded is None:
            return
        self._exceeded = exceeded
        if not self.coroutines.cancel():
            raise exceeded.error()

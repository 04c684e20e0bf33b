"""Enforces the time limits of jobs that run in threads."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any

from pinlater.jobs.step_deadline import StepDeadline
from pinlater.worker.running.alarms import Alarms
from pinlater.worker.running.coroutines import Coroutines
from pinlater.worker.running.deadlines import Deadlines
from pinlater.worker.running.loop_limits import await_limited
from pinlater.worker.running.run_limits import RunLimits
from pinlater.worker.running.step_limits import limit_by_alarm


class ThreadLimits:
    """Runs one job at a time within limits, in one of several threads.

    Args:
        deadlines: hard limits of all threads.
        alarms: soft limits of all threads.

    Attributes:
        coroutines: runs ``async def run`` of the jobs.
    """

    def __init__(self, deadlines: Deadlines, alarms: Alarms) -> None:
        self.coroutines = Coroutines(self._limit_coroutine)
        self._deadlines = deadlines
        self._alarms = alarms
        self._soft: RunLimits | None = None

    def run(self, run_limits: RunLimits, call: Callable[[], object]) -> None:
        """Call ``call``, and raise ``JobTimeout`` in it when a limit is exceeded. Raises what it raises."""
        with self._deadlines.enforce(run_limits):
            if not run_limits.is_soft:
                call()
            else:
                self._run_with_soft_limit(run_limits, call)

    def _run_with_soft_limit(self, run_limits: RunLimits, call: Callable[[], object]) -> None:
        self._soft = run_limits
        try:
            with self._alarms.armed(run_limits):
                call()
        finally:
            self._soft = None

    def _limit_coroutine(self, coroutine: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        """Enforce the soft limit inside the coroutine: it must not be raised in the event loop's own code."""
        if self._soft is None:
            return coroutine
        self._alarms.disarm(self._soft)
        return await_limited(coroutine, self._soft)

    def limit_step(self, deadline: StepDeadline) -> AbstractContextManager[None]:
        """Return a context in which ``StepTimeout`` is raised at the deadline of a step."""
        return limit_by_alarm(self._alarms, deadline)

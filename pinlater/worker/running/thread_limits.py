"""Ends a job that runs in a thread beside others, when it runs for longer than its class allows."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from os import getpid
from time import monotonic
from typing import Any

from pinlater.job import JobOptions
from pinlater.worker.running.alarms import Alarms
from pinlater.worker.running.coroutines import Coroutines
from pinlater.worker.running.deadlines import Deadlines
from pinlater.worker.running.limits import within


class ThreadLimits:
    """Runs one job at a time within limits, in a thread of several.

    Args:
        deadlines: hard limits of all threads.
        alarms: soft limits of all threads.
    """

    def __init__(self, deadlines: Deadlines, alarms: Alarms) -> None:
        self._deadlines = deadlines
        self._alarms = alarms
        self._pid = getpid()
        self._soft: tuple[float, float] | None = None

    def run(self, options: JobOptions, call: Callable[[], object]) -> None:
        """Call ``call``. Raises what it raises; ``JobTimeout`` is raised in the midst of it."""
        hard_seconds = options.hard_seconds
        number = None if hard_seconds is None else self._deadlines.add(monotonic() + hard_seconds)
        try:
            if options.timeout is None:
                call()
            else:
                self._run_softly(options.timeout, call)
        finally:
            if number is not None and getpid() == self._pid:  # a fork of the job may not lift its limit
                self._deadlines.remove(number)

    def _run_softly(self, seconds: float, call: Callable[[], object]) -> None:
        self._soft = seconds, monotonic() + seconds
        try:
            self._alarms.arm(seconds)
            call()
        finally:
            self._soft = None
            self._alarms.disarm()

    def soften(self, coroutine: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        """Put the alarm of the job that runs into its coroutine: it must not break into the event loop's own code."""
        if self._soft is None:
            return coroutine
        self._alarms.disarm()
        seconds, until = self._soft
        return within(coroutine, seconds, until - monotonic())


class LimitedCoroutines(Coroutines):
    """Those of one thread.

    Args:
        limits: of the thread.
    """

    def __init__(self, limits: ThreadLimits) -> None:
        super().__init__()
        self._limits = limits

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run ``coroutine`` to its end. Raises what it raises, or ``JobTimeout``."""
        super().run(self._limits.soften(coroutine))

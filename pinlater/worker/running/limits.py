"""Ends jobs that run for longer than their class allows.

The soft limit is an exception in the job, raised by a timer's signal. A job that does not heed it, or that keeps the
interpreter busy, meets the hard limit: the master kills the process, and the keeper reports the job.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from os import getpid
from time import monotonic
from types import FrameType
from typing import Any, Protocol

from pinlater.errors import JobTimeout
from pinlater.job import JobOptions
from pinlater.worker.exchange.saver import Saver
from pinlater.worker.running.coroutines import Coroutines

KillAt = Callable[[float | None], object]
"""Asks for this process to be killed at a monotonic time; None takes that back."""

_AFTER_SAVING_SECONDS = 0.01


def never_kill(_: float | None) -> None:
    """Stand in for the master where there is none."""


class Limits(Protocol):
    """Runs jobs within limits."""

    def run(self, options: JobOptions, call: Callable[[], object]) -> None:
        """Call ``call``. Raises what it raises; ``JobTimeout`` is raised in the midst of it."""


class TimeLimits:
    """Runs one job at a time within limits, in the main thread.

    Args:
        kill_at: the hard limit.
        coroutines: what runs ``async def run``; it is told of the soft limit.
        saver: while it talks to the server, the soft limit waits.
    """

    def __init__(self, kill_at: KillAt, coroutines: Coroutines, saver: Saver) -> None:
        self._kill_at = kill_at
        self._coroutines = coroutines
        self._saver = saver
        self._pid = getpid()
        self._seconds = 0.0
        self._is_armed = False
        self._is_up = False

    def run(self, options: JobOptions, call: Callable[[], object]) -> None:
        """Call ``call``. Raises what it raises; ``JobTimeout`` is raised in the midst of it."""
        hard_seconds = options.hard_seconds
        if hard_seconds is not None:
            self._kill_at(monotonic() + hard_seconds)
        try:
            # Signals reach only the main thread; a test may run jobs in another one.
            if options.timeout is None or threading.current_thread() is not threading.main_thread():
                call()
            else:
                self._run_softly(options.timeout, call)
        finally:
            if hard_seconds is not None and getpid() == self._pid:  # a fork of the job may not lift its limit
                self._kill_at(None)

    def _run_softly(self, seconds: float, call: Callable[[], object]) -> None:
        usual = signal.signal(signal.SIGALRM, self._ring)
        self._seconds, self._is_armed, self._is_up = seconds, True, False
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            call()
        except asyncio.CancelledError as error:
            if self._is_up:
                raise self._error().with_traceback(error.__traceback__) from None
            raise
        finally:
            self._is_armed = False  # first: a signal that is on its way must not break into what follows
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL if usual is None else usual)

    def _ring(self, _number: int, _frame: FrameType | None) -> None:
        if not self._is_armed:
            return
        if self._saver.is_saving:  # a call cut off in the middle would leave the connection unusable
            signal.setitimer(signal.ITIMER_REAL, _AFTER_SAVING_SECONDS)
            return
        self._is_up = True
        if not self._coroutines.cancel():
            raise self._error()

    def _error(self) -> JobTimeout:
        return JobTimeout(overdue_text(self._seconds))


async def within(coroutine: Coroutine[Any, Any, Any], seconds: float, remaining_seconds: float) -> None:
    """Await ``coroutine``, which is cancelled when the time is up, and then raises ``JobTimeout``.

    Args:
        coroutine: of a job.
        seconds: the whole limit.
        remaining_seconds: what is left of it.
    """
    limit = asyncio.timeout(remaining_seconds)
    try:
        async with limit:
            await coroutine
    except TimeoutError as error:
        if not limit.expired():
            raise
        where = error if error.__cause__ is None else error.__cause__
        raise JobTimeout(overdue_text(seconds)).with_traceback(where.__traceback__) from None


def overdue_text(seconds: float) -> str:
    """Return what a ``JobTimeout`` says."""
    return f"it ran for longer than its timeout of {seconds:g} s"

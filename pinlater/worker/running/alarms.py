"""Soft limits of jobs in threads, raised as an exception in the thread of the job."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from threading import Lock, get_ident
from time import monotonic

from pinlater.errors import JobTimeout
from pinlater.worker.running.run_limits import LimitExceeded, RunLimits


class Alarms:
    """Holds the limits of at most one job per thread; the main thread checks whether one is due.

    It strikes when the thread runs Python code next: a call that blocks is not cut short.

    Args:
        wake: makes the main thread look, and ask when to look again.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._lock = Lock()
        self._armed: dict[int, RunLimits] = {}
        self._struck: set[int] = set()

    def arm(self, run_limits: RunLimits) -> None:
        """Have ``JobTimeout`` raised in this thread when a limit is exceeded."""
        with self._lock:
            self._armed[get_ident()] = run_limits
        self._wake()

    def disarm(self) -> None:
        """Make sure that nothing more is raised in this thread.

        Raises:
            JobTimeout: it was about to be.
        """
        try:
            self._forget()
        finally:  # an alarm may break into the line above, but it goes off once: not into this one
            self._forget()

    def _forget(self) -> None:
        thread = get_ident()
        with self._lock:
            self._armed.pop(thread, None)
            if thread in self._struck:
                _raise_in(thread, None)
                self._struck.discard(thread)

    def check(self) -> float | None:
        """Raise exceeded limits; return the seconds until the next check, None if no limit is set."""
        now = monotonic()
        with self._lock:
            for thread, run_limits in self._armed.items():
                exceeded = run_limits.due(now)
                if exceeded is not None:
                    self._struck.add(thread)
                    _raise_in(thread, _class_of(exceeded))
            times = [seconds for each in self._armed.values() if (seconds := each.next_check_in(now)) is not None]
        return min(times, default=None)


def _raise_in(thread: int, error: type[JobTimeout] | None) -> None:
    """Raise an exception in a thread; None cancels one that was not raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error)
    )


@cache
def _class_of(exceeded: LimitExceeded) -> type[JobTimeout]:
    """Return an exception class for a limit: only classes can be raised in another thread."""

    class Overdue(exceeded.kind):  # type: ignore[name-defined,misc] # not known before
        def __init__(self) -> None:
            super().__init__(exceeded.text)

    Overdue.__name__ = Overdue.__qualname__ = exceeded.kind.__name__
    return Overdue

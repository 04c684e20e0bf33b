"""Soft limits of jobs in threads: an exception that Python raises in another thread."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from threading import Lock, get_ident
from time import monotonic

from pinlater.errors import JobTimeout
from pinlater.worker.running.limits import overdue_text


class Alarms:
    """At most one alarm a thread. The main thread looks whether one is due.

    It strikes when the thread runs Python code next: a call that blocks is not cut short.

    Args:
        wake: makes the main thread look, and ask when to look again.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._lock = Lock()
        self._armed: dict[int, tuple[float, type[JobTimeout]]] = {}

    def arm(self, seconds: float) -> None:
        """Have ``JobTimeout`` raised in this thread after so many seconds."""
        with self._lock:
            self._armed[get_ident()] = monotonic() + seconds, _timeout_after(seconds)
        self._wake()

    def disarm(self) -> None:
        """Make sure that nothing more will be raised in this thread.

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
            if self._armed.pop(thread, None) is None:
                _raise_in(thread, None)

    def look(self) -> float | None:
        """Raise what is due; return the seconds until there will be more, None if nobody knows of any."""
        now = monotonic()
        with self._lock:
            for thread, (moment, error) in list(self._armed.items()):
                if moment <= now:
                    del self._armed[thread]
                    _raise_in(thread, error)
            return min((moment for moment, _ in self._armed.values()), default=now) - now if self._armed else None


def _raise_in(thread: int, error: type[JobTimeout] | None) -> None:
    """Raise an exception in a thread; None takes back one that was not raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error)
    )


@cache
def _timeout_after(seconds: float) -> type[JobTimeout]:
    """Return a class, since nothing else can be raised in another thread; its instances know the limit."""

    class Overdue(JobTimeout):
        def __init__(self) -> None:
            super().__init__(overdue_text(seconds))

    Overdue.__name__ = Overdue.__qualname__ = JobTimeout.__name__
    return Overdue

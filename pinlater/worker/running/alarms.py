"""Soft limits of jobs in threads, raised as an exception in the thread of the job."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock, get_ident
from time import monotonic
from typing import Protocol

from pinlater.worker.running.run_limits import LimitExceeded
from pinlater.worker.running.with_entries import RETRY_SECONDS, Postponement, is_entering, may_enter


class SoftLimit(Protocol):
    """A limit that is checked again and again."""

    def due(self, now: float) -> LimitExceeded | None:
        """Return the limit that is exceeded now; each is returned once."""

    def next_check_in(self, now: float) -> float | None:
        """Return the seconds until the next check; None: never."""


class Alarms:
    """Holds the soft limits of threads, those of a job and of its steps; some thread checks whether one is due.

    An exception is raised when the limited thread next runs Python code: a blocking call is not cut short. It is not
    raised where it would leave a lock locked; see ``with_entries``.

    Args:
        wake: makes the checking thread call ``check``. A limit may be raised anywhere in ``wake``.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._lock = Lock()
        self._armed: dict[int, list[SoftLimit]] = {}
        self._struck: dict[int, SoftLimit] = {}
        self._postponements: dict[int, Postponement] = {}

    @contextmanager
    def armed(self, limit: SoftLimit) -> Iterator[None]:
        """Have an exception raised in the block when the limit is exceeded."""
        try:
            self.arm(limit)
            yield
        finally:
            try:
                self.disarm(limit)
            finally:  # a limit may be raised in the line above, but only once, so not in this one
                self.disarm(limit)

    def arm(self, limit: SoftLimit) -> None:
        """Have an exception raised in this thread when a limit is exceeded."""
        with self._lock:
            self._armed.setdefault(get_ident(), []).append(limit)
        self._wake()

    def disarm(self, limit: SoftLimit | None = None) -> None:
        """Make sure that nothing more is raised in this thread for a limit, nor for those that were armed within it.

        Args:
            limit: the limit; None: all of this thread.

        Raises:
            JobTimeout, StepTimeout: it was about to be raised. Then disarm again: this call may not have begun.
        """
        thread = get_ident()
        with self._lock:
            armed = self._armed.get(thread, [])
            first = 0 if limit is None else armed.index(limit) if limit in armed else len(armed)
            if self._struck.get(thread) in armed[first:]:
                _call_off(thread)
                del self._struck[thread]
            del armed[first:]
            if not armed:
                self._armed.pop(thread, None)
                self._postponements.pop(thread, None)

    def check(self) -> float | None:
        """Raise exceeded limits; return the seconds until the next check, None if no limit is set."""
        now = monotonic()
        with self._lock:
            times = [self._check(thread, limits, now) for thread, limits in self._armed.items()]
        return min((seconds for seconds in times if seconds is not None), default=None)

    def _check(self, thread: int, limits: list[SoftLimit], now: float) -> float | None:
        seconds = _next_check_in(limits, now)
        if seconds is None or seconds > 0:
            return seconds
        if self._must_wait(thread):
            return RETRY_SECONDS
        self._strike(thread, limits, now)
        return _next_check_in(limits, now)

    def _must_wait(self, thread: int) -> bool:
        """Return whether an exception raised in a thread now may leave a lock locked."""
        frame = sys._current_frames().get(thread)  # noqa: SLF001 - there is no other way
        if is_entering(frame):  # for as long as it waits for the lock
            return True
        postponement = self._postponements.setdefault(thread, Postponement())
        return postponement.is_needed(is_unsafe=may_enter(frame))

    def _strike(self, thread: int, limits: list[SoftLimit], now: float) -> None:
        """Raise the outermost limit that is exceeded, and drop those within it, which would replace it."""
        for number, limit in enumerate(limits, 1):
            exceeded = limit.due(now)
            if exceeded is not None:
                del limits[number:]
                self._struck[thread] = limit
                _raise_in(thread, _class_of(exceeded))
                return


def _next_check_in(limits: Iterable[SoftLimit], now: float) -> float | None:
    times = [seconds for each in limits if (seconds := each.next_check_in(now)) is not None]
    return min(times, default=None)


def _raise_in(thread: int, error: type[Exception]) -> None:
    """Raise an exception in a thread; it replaces one that is still pending."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


class _CalledOffError(Exception):
    """Raised in place of a limit that was lifted."""


def _call_off(thread: int) -> None:
    """Make sure that no exception is pending in this thread, whether the last one was raised already or not.

    Python 3.11 and 3.12 have no other way without flaws. After ``PyThreadState_SetAsyncExc(thread, NULL)``, the
    interpreter would go on looking for something to raise for as long as the process lives, and under a profiler or
    tracer, Python 3.11 would hang.
    """
    try:
        while True:  # once, unless it is lost in a finalizer
            _raise_in(thread, _CalledOffError)
    except _CalledOffError:
        pass


def _class_of(exceeded: LimitExceeded) -> type[Exception]:
    """Return an exception class for a limit: only classes can be raised in another thread."""
    if not exceeded.text:
        return exceeded.kind

    class Overdue(exceeded.kind):  # type: ignore[name-defined,misc] # not known before
        def __init__(self) -> None:
            super().__init__(exceeded.text)

    Overdue.__name__ = Overdue.__qualname__ = exceeded.kind.__name__
    return Overdue

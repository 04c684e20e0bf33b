"""A timer separate from those that jobs may use: a process has one ``signal.alarm`` and one ``setitimer``."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

SHORTEST_SECONDS = 1e-6
JOB_SIGNAL, STEP_SIGNAL = (getattr(signal, "SIGRTMAX", 64) - 3, getattr(signal, "SIGRTMAX", 64) - 4)
"""Signals of the timers of jobs and of steps; nothing else uses them."""

_CLOCK_MONOTONIC = 1
_SIGEV_SIGNAL = 0
_SIGEV_BYTES = 64

TimerHandler = Callable[[int, FrameType | None], object]


class Timer(Protocol):
    """Sends a signal to the main thread once."""

    def open(self, handler: TimerHandler) -> None:
        """Install ``handler``, whatever a job did to the signal."""

    def set(self, seconds: float | None) -> None:
        """Set the timer to ``seconds`` from now; None: off."""

    def close(self) -> None:
        """Turn the timer off."""


class _Expiration(ctypes.Structure):
    """``struct itimerspec``."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("every_s", "every_ns", "first_s", "first_ns"))


class _Event(ctypes.Structure):
    """``struct sigevent``."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("kind", ctypes.c_int),
        ("rest", ctypes.c_char * (_SIGEV_BYTES - 8 - ctypes.sizeof(ctypes.c_void_p))),
    )


class OwnTimer:
    """A POSIX timer with a signal that nothing else uses.

    Args:
        number: number of the signal.

    Raises:
        OSError: the system has no such timers.
    """

    def __init__(self, number: int) -> None:
        self._libc: Any = ctypes.CDLL(None, use_errno=True)
        self._timer = ctypes.c_void_p()
        self._signal = number
        event = _Event(signal=self._signal, kind=_SIGEV_SIGNAL)
        try:
            failed = self._libc.timer_create(_CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(self._timer))
        except AttributeError as error:
            raise OSError("this system has no timer_create") from error
        if failed:
            raise OSError(ctypes.get_errno(), "timer_create")

    def open(self, handler: TimerHandler) -> None:
        signal.signal(self._signal, handler)

    def set(self, seconds: float | None) -> None:
        whole, part = divmod(0.0 if seconds is None else max(seconds, SHORTEST_SECONDS), 1.0)
        expiration = _Expiration(0, 0, int(whole), int(part * 1e9))
        self._libc.timer_settime(self._timer, 0, ctypes.byref(expiration), None)

    def close(self) -> None:
        self.set(None)  # the handler stays: without it, a signal that is still pending would end the process


class SharedTimer:
    """The timer that jobs may also use, for systems without other timers."""

    def __init__(self) -> None:
        self._usual: Any = None

    def open(self, handler: TimerHandler) -> None:
        self._usual = signal.signal(signal.SIGALRM, handler)

    def set(self, seconds: float | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.0 if seconds is None else max(seconds, SHORTEST_SECONDS))

    def close(self) -> None:
        self.set(None)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if self._usual is None else self._usual)


def new_timer() -> Timer:
    """Return the best timer of this system for jobs."""
    return own_timer(JOB_SIGNAL) or SharedTimer()


def own_timer(number: int) -> Timer | None:
    """Return a timer with a separate signal; None if this system has none."""
    if sys.platform != "linux":  # elsewhere the structures differ
        return None
    try:
        return OwnTimer(number)
    except OSError:
        return None

"""Two prctl(2) requests that Python lacks. They do nothing on systems other than Linux."""

from __future__ import annotations

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


PARENT_DEATH_SIGNAL = getattr(signal, "SIGRTMIN", 34) + 4
"""Sent by the kernel to a process whose parent died, if it asked for that; nothing else uses this signal."""


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies, however it dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def has_parent_death_signal() -> bool:
    return sys.platform == "linux"


def request_parent_death_signal() -> None:
    """Have the kernel send `PARENT_DEATH_SIGNAL` when the parent dies, instead of killing this process."""
    _prctl(_PR_SET_PDEATHSIG, PARENT_DEATH_SIGNAL)


def adopt_orphans(wanted: bool) -> None:
    """Set whether orphaned descendants become children of this process instead of process 1."""
    _prctl(_PR_SET_CHILD_SUBREAPER, int(wanted))


def _prctl(option: int, value: int) -> None:
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        word = ctypes.c_ulong
        prctl(ctypes.c_int(option), word(value), word(0), word(0), word(0))

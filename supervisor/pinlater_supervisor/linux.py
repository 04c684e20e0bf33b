"""Two requests to the kernel that Python has no name for. Elsewhere than on Linux they do nothing."""

from __future__ import annotations

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


ORPHANED_SIGNAL = getattr(signal, "SIGRTMIN", 34) + 4
"""For a process that is to hear of its parent's death; nobody else uses it."""


def die_with_parent() -> None:
    """Have this process killed when its parent dies, however it dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def can_hear_of_parents_death() -> bool:
    return sys.platform == "linux"


def hear_of_parents_death() -> None:
    """Have this process get `ORPHANED_SIGNAL` then, instead of being killed."""
    _prctl(_PR_SET_PDEATHSIG, ORPHANED_SIGNAL)


def adopt_orphans(wanted: bool) -> None:
    """Whether descendants whose parents died become children of this process instead of process 1."""
    _prctl(_PR_SET_CHILD_SUBREAPER, int(wanted))


def _prctl(option: int, value: int) -> None:
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        word = ctypes.c_ulong
        prctl(ctypes.c_int(option), word(value), word(0), word(0), word(0))

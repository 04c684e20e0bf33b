"""Two requests to the kernel that Python has no name for. Elsewhere than on Linux they do nothing."""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent() -> None:
    """Have this process killed when its parent dies, however it dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans(wanted: bool) -> None:
    """Whether descendants whose parents died become children of this process instead of process 1."""
    _prctl(_PR_SET_CHILD_SUBREAPER, int(wanted))


def _prctl(option: int, value: int) -> None:
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        word = ctypes.c_ulong
        prctl(ctypes.c_int(option), word(value), word(0), word(0), word(0))

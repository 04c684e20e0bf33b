"""A queue of the master's signals.

No Python code runs in a handler: the interpreter's C handler writes the number into a pipe, which the main
loop selects on.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

HANDLED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCHLD,
)

_HELD_BACK = {signal.SIGHUP}


class SignalQueue:
    """Collects `HANDLED` signals while open; restores the former handlers and the mask when closed."""

    def __init__(self) -> None:
        self._reader, self._writer = nonblocking_pipe()
        self._former_fd = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._former: dict[int, Any] = {number: signal.signal(number, no_op) for number in HANDLED}
        self._former_mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD_BACK)

    def fileno(self) -> int:
        return self._reader

    def drain(self) -> list[int]:
        """Return the signals received since the last call, oldest first."""
        return list(drain_pipe(self._reader))

    def close(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._former_mask)
        for number, handler in self._former.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._former_fd)
        self.close_pipe()

    def close_pipe(self) -> None:
        """Close only the pipe, for a forked child, which sets its own handlers."""
        os.close(self._reader)
        os.close(self._writer)


def heed_while_starting() -> None:
    """End this process with exit code 0 on SIGTERM, and hold SIGHUP back, until a supervisor runs in it.

    It is for a program that is starting. The kernel discards SIGTERM if it has no handler and this is process 1 of a
    container. So the program would start in spite of it, and be killed in the middle of its work when its grace period
    is over. SIGHUP would end it; held back, it is a reload as soon as there is something to reload.
    """
    signal.signal(signal.SIGTERM, _end)
    signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)


def no_op(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: Python writes to the wake-up pipe only for signals that have a handler."""


@contextmanager
def blocked() -> Iterator[None]:
    """Block signals around a fork: a child must not run its parent's handlers."""
    former = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def nonblocking_pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    return reader, writer


def wake(writer: int) -> None:
    """Wake the process that selects on the other end; a full pipe wakes it anyway."""
    with suppress(OSError):
        os.write(writer, b"\0")


def drain_pipe(reader: int) -> bytes:
    try:
        return os.read(reader, 65536)
    except BlockingIOError:
        return b""

"""The terminal of ``pinlater-worker --debug``, which ``breakpoint()`` reads in the job process.

The supervisor starts each child in a separate process group, with nothing to read on standard input. Only the
terminal's foreground group may read from it. So the job process moves its group to the foreground, and the master
moves its own back at the end.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from threading import Thread

from pinlater.errors import ConfigError

_STDIN = 0
_TERMINAL = "/dev/tty"


def refuse_without_terminal() -> None:
    """Check that standard input is a terminal.

    Raises:
        ConfigError: it is not.
    """
    if not (sys.stdin and sys.stdin.isatty()):
        raise ConfigError("--debug needs a terminal as standard input, for breakpoint(); run it in one")


def use_terminal() -> None:
    """Make the job process read from the terminal. Ctrl-C there ends the worker, Ctrl-Z is ignored."""
    terminal = os.open(_TERMINAL, os.O_RDWR)
    os.dup2(terminal, _STDIN)
    os.close(terminal)
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # the shell would not learn that only this process has stopped
    relay_interrupts()
    _move_to_foreground()


def relay_interrupts() -> None:
    """Pass each SIGINT on to the master, whatever the main thread does; call again after code that may have undone it.

    A handler in Python would wait for the main thread, which may be in C code: an interrupt just before the debugger
    waits for a line would be lost. So the interpreter's handler in C writes to a pipe that a thread reads.
    """
    signal.set_wakeup_fd(_relay(), warn_on_full_buffer=False)


@cache
def _relay() -> int:
    """Start the thread that passes SIGINT on; return the descriptor to write signal numbers to."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    Thread(target=_pass_on, args=(reader,), name="interrupts", daemon=True).start()
    return writer


def _pass_on(reader: int) -> None:
    while numbers := os.read(reader, 1024):
        for _ in range(numbers.count(signal.SIGINT)):
            os.kill(os.getppid(), signal.SIGINT)


@contextmanager
def restored_terminal() -> Iterator[None]:
    """Move the master's process group back to the foreground at the end."""
    try:
        yield
    finally:
        with suppress(OSError):  # it was closed
            _move_to_foreground()


def _move_to_foreground() -> None:
    # The kernel stops a background process that does this with SIGTTOU, unless the signal is blocked.
    former = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    try:
        os.tcsetpgrp(_STDIN, os.getpgrp())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)

"""The terminal of ``pinlater-worker --debug``, from which ``breakpoint()`` reads in the job process.

The supervisor gives each child a process group of its own, and nothing to read. Who reads from a terminal has to be of
the group in front there. So the job process puts its own group there, and the master takes the place back at the end.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pinlater.errors import ConfigError

_STDIN = 0
_TERMINAL = "/dev/tty"


def refuse_without_terminal() -> None:
    """Return if there is a terminal to debug at.

    Raises:
        ConfigError: there is none.
    """
    if not (sys.stdin and sys.stdin.isatty()):
        raise ConfigError("--debug lets breakpoint() read from the terminal, and standard input is none; run it at one")


def take_terminal() -> None:
    """Read from the terminal; called by the job process. ^C there ends the worker, ^Z is ignored."""
    terminal = os.open(_TERMINAL, os.O_RDWR)
    os.dup2(terminal, _STDIN)
    os.close(terminal)
    hear_terminal()
    _come_to_the_front()


def hear_terminal() -> None:
    """Let ^C end the worker, also after a debugger had it for itself."""
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # the shell would not learn that only this process has stopped
    signal.signal(signal.SIGINT, _interrupt_master)


@contextmanager
def terminal_given_back() -> Iterator[None]:
    """Let nobody but this process's group be in front at the end; for the master."""
    try:
        yield
    finally:
        with suppress(OSError):  # it was closed
            _come_to_the_front()


def _come_to_the_front() -> None:
    # Whoever is not in front is stopped for this by a signal, unless it is blocked.
    former = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    try:
        os.tcsetpgrp(_STDIN, os.getpgrp())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _interrupt_master(*_: object) -> None:
    os.kill(os.getppid(), signal.SIGINT)

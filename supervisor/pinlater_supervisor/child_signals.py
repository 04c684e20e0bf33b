"""Which signals a child hears, and what becomes of them in processes that it forks itself."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from typing import TYPE_CHECKING

from pinlater_supervisor import signals

if TYPE_CHECKING:
    from pinlater_supervisor.child import Child

DUMP_SIGNAL = signal.SIGUSR2

_STDERR = 2
_CLOCKS = {
    signal.ITIMER_REAL: signal.SIGALRM,
    signal.ITIMER_VIRTUAL: signal.SIGVTALRM,
    signal.ITIMER_PROF: signal.SIGPROF,
}
"""A process has one of each, and its signal ends the process unless there is a handler."""


def hear(child: Child) -> None:
    """Replace the handlers inherited from the master; signals are still blocked."""
    _hear_nothing()
    _listen(child)
    faulthandler.enable(_STDERR)
    faulthandler.register(DUMP_SIGNAL, _STDERR, all_threads=True)
    _Forking().register()


def hear_again(child: Child) -> None:
    """Undo what the child's work did to signals: took their handlers, blocked them, left alarm clocks running."""
    for clock in _CLOCKS:
        signal.setitimer(clock, 0)
    _listen(child)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _listen(child: Child) -> None:
    # Only the master decides when a child stops, whatever a terminal sends to all. Handlers that do
    # nothing, since programs that the child starts would inherit the disposition "ignored".
    signal.signal(signal.SIGINT, signals.noted)
    signal.signal(signal.SIGHUP, signals.noted)
    for alarm in _CLOCKS.values():  # that one piece of work left behind must not end the next
        signal.signal(alarm, signals.noted)
    # As every Python process: a broken pipe is an OSError. `subprocess` gives programs the default back.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, child.heard_term)
    signal.signal(signal.SIGQUIT, child.heard_quit)
    signal.signal(signal.SIGUSR1, child.heard_reopen)


def _hear_nothing() -> None:
    signal.set_wakeup_fd(-1)
    for number in signals.HANDLED:
        signal.signal(number, signal.SIG_DFL)


class _Forking(threading.local):
    """A process that the child forks (multiprocessing does) must not answer for it.

    Signals wait while it is born: one that met the child's handlers in it would be lost.
    """

    def register(self) -> None:
        os.register_at_fork(before=self._before, after_in_parent=self._after, after_in_child=self._born)

    def _before(self) -> None:
        self._former = signal.pthread_sigmask(signal.SIG_BLOCK, signals.HANDLED)

    def _after(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._former)

    def _born(self) -> None:
        _hear_nothing()
        self._after()

"""Signal handlers of a child, and of the processes that it forks."""

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
_TIMERS = {
    signal.ITIMER_REAL: signal.SIGALRM,
    signal.ITIMER_VIRTUAL: signal.SIGVTALRM,
    signal.ITIMER_PROF: signal.SIGPROF,
}
"""A process has one timer of each kind; its signal ends the process unless there is a handler."""


def install_handlers(child: Child) -> None:
    """Replace the signal handlers inherited from the master; signals are still blocked."""
    _reset_handlers()
    _install_child_handlers(child)
    faulthandler.enable(_STDERR)
    _ForkHandlers().register()


def hear_again(child: Child) -> None:
    """Restore the child's signal handling after work that replaced handlers, blocked signals or left timers running."""
    for timer in _TIMERS:
        signal.setitimer(timer, 0)
    _install_child_handlers(child)
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # `subprocess` would take failures for successes
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _install_child_handlers(child: Child) -> None:
    # Only the master decides when a child stops, whatever a terminal sends to all. The handlers do nothing
    # instead of being SIG_IGN, which programs that the child starts would inherit.
    signal.signal(signal.SIGINT, signals.no_op)
    signal.signal(signal.SIGHUP, signals.no_op)
    for alarm in _TIMERS.values():  # a timer left running by one piece of work must not end the next
        signal.signal(alarm, signals.no_op)
    # As in every Python process, a broken pipe is an OSError. `subprocess` restores the default for programs.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, child.heard_term)
    signal.signal(signal.SIGQUIT, child.heard_quit)
    signal.signal(signal.SIGUSR1, child.heard_reopen)
    # Without a handler, a request for a dump would end the process. The first one is for the moment in between.
    signal.signal(DUMP_SIGNAL, signals.no_op)
    faulthandler.unregister(DUMP_SIGNAL)
    faulthandler.register(DUMP_SIGNAL, _STDERR, all_threads=True)


def _reset_handlers() -> None:
    signal.set_wakeup_fd(-1)
    for number in signals.HANDLED:
        signal.signal(number, signal.SIG_DFL)


class _ForkHandlers(threading.local):
    """Resets signal handlers in processes that the child forks, as multiprocessing does.

    Signals are blocked during the fork: one that ran the child's handlers in the new process would be lost.
    """

    def register(self) -> None:
        os.register_at_fork(before=self._before, after_in_parent=self._after, after_in_child=self._after_in_child)

    def _before(self) -> None:
        self._former = signal.pthread_sigmask(signal.SIG_BLOCK, signals.HANDLED)

    def _after(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._former)

    def _after_in_child(self) -> None:
        _reset_handlers()
        self._after()

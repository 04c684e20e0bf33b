"""The child's interface to the master: readiness, heartbeats, time-outs, stop requests."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from math import inf
from time import monotonic
from types import FrameType
from typing import NamedTuple

from pinlater_supervisor import linux, signals
from pinlater_supervisor.child_page import DRAINING, STOPPING_NOW, ChildPage
from pinlater_supervisor.exits import EX_SOFTWARE
from pinlater_supervisor.memory import rss_bytes
from pinlater_supervisor.repeated_signal import repeat_once_gone

Hook = Callable[[], object]

_STATUS_SECONDS = 1.0
_KILL_CHECK_SECONDS = 0.001
"""Interval of checks by a child that is being killed: within a few, it is dead or the kill is cancelled."""


class ChildPosition(NamedTuple):
    """A child's pool, its slot there, and how many reloads came before it."""

    pool: str
    slot: int
    generation: int


class Child:
    """The child's interface to its master, passed to `Pool.run` in the forked process.

    Attributes:
        pool: name of the pool.
        slot: smallest number that was free in the pool; no other living child of the pool has it.
        generation: how many reloads the supervisor had seen when this child started.
        pid: process id.
        wakeup_fd: becomes readable when a stop is asked for; one byte comes per stage (drain, stop now).
            For poll() next to a socket. It stays readable until the byte is read.
    """

    def __init__(self, position: ChildPosition, page: ChildPage, title: str, master_wakeup: int) -> None:
        self.pool, self.slot, self.generation = position
        self.pid = self._master = 0
        self.wakeup_fd = -1
        self._wakeup_writer = -1
        self._title = title
        self._page = page
        self._master_wakeup = master_wakeup
        self._status_sent_at = 0.0
        self._stage_hooks: dict[int, Hook] = {}
        self._reopen_hook: Hook | None = None

    @property
    def draining(self) -> bool:
        """True once the child should take no more work, finish what it has, and return from `run`."""
        return self._page.stage >= DRAINING

    @property
    def stopping_now(self) -> bool:
        """True once the child should drop what it does: it is killed within about two seconds."""
        return self._page.stage >= STOPPING_NOW

    def ready(self) -> None:
        """Tell the master that the child has started. A crash before this counts as a failed start."""
        self._page.set_ready(rss_bytes(self.pid))
        signals.wake(self._master_wakeup)

    def beat(self) -> None:
        """Send a heartbeat; costs less than a microsecond. See `Pool.hang_seconds`."""
        self._page.beat()

    def kill_at(self, moment: float | None) -> None:
        """Ask to be killed, after a dump of the stacks, at `moment` on `time.monotonic()`; None: never.

        Only the last call counts. A time-out per task is one call before each task and costs a
        microsecond: the master is woken only for a moment before the one it waits for.

        When this returns, the earlier moment no longer counts. A child that is being killed for it never
        returns from here, so its next task cannot be killed by mistake.
        """
        if self._page.set_kill_at(inf if moment is None else moment):
            signals.wake(self._master_wakeup)
        while self._page.is_being_killed:  # read after the line above: the master does both in the opposite order
            time.sleep(_KILL_CHECK_SECONDS)

    def wake_master(self) -> None:
        """Make the master check its children now, because a time-out has moved; see `Pool.kill_at`."""
        signals.wake(self._master_wakeup)

    def status(self, text: str) -> None:
        """Publish a short status text, shown by systemd and in the log on SIGUSR2. Cheap to repeat."""
        self._page.set_status(text)
        now = monotonic()
        if now - self._status_sent_at >= _STATUS_SECONDS:
            self._status_sent_at = now
            signals.wake(self._master_wakeup)

    def title(self, text: str) -> None:
        """Show `text` after the pool's title in the process list."""
        set_title(f"{self._title}: {text}" if text else self._title)

    def on_drain(self, hook: Hook) -> None:
        """Call `hook` in the main thread when a stop is requested, at once if it already was.

        It runs as a signal handler, between any two instructions, so let it only set a flag or wake a loop.
        Its exceptions are raised in the code that was interrupted.
        """
        self._stage_hooks[DRAINING] = hook
        self._call_stage_hooks()

    def on_stop_now(self, hook: Hook) -> None:
        """Like `on_drain`, for the second stage."""
        self._stage_hooks[STOPPING_NOW] = hook
        self._call_stage_hooks()

    def on_reopen(self, hook: Hook) -> None:
        """Call `hook` like a signal handler when log files should be reopened (SIGUSR1)."""
        self._reopen_hook = hook

    def on_master_death(self, hook: Hook) -> None:
        """Call `hook` in the main thread when the master was killed, then exit; only on Linux.

        All children are killed with their master, whatever killed it. One that calls this may first clean up after
        the others, whose own children nobody else kills.
        """

        def orphaned(_number: int, _frame: FrameType | None) -> None:
            signal.signal(linux.PARENT_DEATH_SIGNAL, signals.no_op)  # the signal is repeated
            try:
                hook()
            finally:
                os._exit(EX_SOFTWARE)

        if not linux.has_parent_death_signal():
            return
        signal.signal(linux.PARENT_DEATH_SIGNAL, orphaned)
        linux.request_parent_death_signal()
        repeat_once_gone(self._master, linux.PARENT_DEATH_SIGNAL)
        if os.getppid() != self._master:
            orphaned(0, None)

    def awake(self) -> None:
        """Initialize the child's process; the supervisor calls this once, right after the fork."""
        self.pid = os.getpid()
        self._master = os.getppid()
        self.wakeup_fd, self._wakeup_writer = signals.nonblocking_pipe()
        self._page.beat()
        self.title("")

    def heard_term(self, _number: int, _frame: FrameType | None) -> None:
        self._reach(DRAINING)

    def heard_quit(self, _number: int, _frame: FrameType | None) -> None:
        self._reach(STOPPING_NOW)

    def heard_reopen(self, _number: int, _frame: FrameType | None) -> None:
        if self._reopen_hook is not None:
            self._reopen_hook()

    def returned(self) -> None:
        """Record that `run` has returned: an exit code of 0 counts only then."""
        if self.pid == os.getpid():
            self._page.set_returned()

    def forget_hooks(self) -> None:
        """Drop all hooks once `run` is over, so that none interrupts the exit."""
        self._stage_hooks.clear()
        self._reopen_hook = None

    def _reach(self, stage: int) -> None:
        self._page.raise_stage(stage)
        self._page.record_answer(stage)
        signals.wake(self._wakeup_writer)
        self._call_stage_hooks()

    def _call_stage_hooks(self) -> None:
        """Call the hooks of the stages that are reached, each once."""
        for stage in range(DRAINING, self._page.stage + 1):
            if hook := self._stage_hooks.pop(stage, None):
                hook()


def set_title(title: str) -> None:
    # Imported late: it costs time that a program's --help should not pay. It writes over the memory that
    # /proc/<pid>/environ shows; os.environ is not touched.
    from setproctitle import setproctitle

    setproctitle(title)

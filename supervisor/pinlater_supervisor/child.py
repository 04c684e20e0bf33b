"""What runs in the child: its view of itself and of the wish to stop."""

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
from pinlater_supervisor.child_page import DRAINING, STOPPING_NOW, Cell
from pinlater_supervisor.exits import EX_SOFTWARE
from pinlater_supervisor.memory import rss_bytes

Hook = Callable[[], object]

_STATUS_SECONDS = 1.0
_TAKEN_BACK_SECONDS = 0.001
"""Between two looks of a child that is being killed: it is dead, or was let live, within a few of them."""


class Place(NamedTuple):
    """Where a child belongs: its pool, its slot there, and how many reloads came before it."""

    pool: str
    slot: int
    generation: int


class Child:
    """Handed to `Pool.run` in the forked process.

    Attributes:
        pool: name of the pool.
        slot: smallest number that was free in the pool; no other living child of the pool has it.
        generation: how many reloads the supervisor had seen when this child started.
        pid: process id.
        wakeup_fd: becomes readable when a stop is asked for; one byte comes per stage (drain, stop now).
            For poll() next to a socket. It stays readable until the byte is read.
    """

    def __init__(self, place: Place, cell: Cell, title: str, doorbell: int) -> None:
        self.pool, self.slot, self.generation = place
        self.pid = self._master = 0
        self.wakeup_fd = -1
        self._wakeup_writer = -1
        self._title = title
        self._cell = cell
        self._doorbell = doorbell
        self._status_shown_at = 0.0
        self._drain_hook: Hook | None = None
        self._stop_now_hook: Hook | None = None
        self._reopen_hook: Hook | None = None

    @property
    def draining(self) -> bool:
        """True once the child should take no more work, finish what it has, and return from `run`."""
        return self._cell.stage >= DRAINING

    @property
    def stopping_now(self) -> bool:
        """True once the child should drop what it does: it is killed within about two seconds."""
        return self._cell.stage >= STOPPING_NOW

    def ready(self) -> None:
        """Tell the master that boot is over. Deaths before this count as failures to start."""
        self._cell.set_ready(rss_bytes(self.pid))
        signals.ring(self._doorbell)

    def beat(self) -> None:
        """Give a sign of life; costs less than a microsecond. See `Pool.hang_seconds`."""
        self._cell.beat()

    def kill_at(self, moment: float | None) -> None:
        """Ask to be killed, after a dump of the stacks, at `moment` on `time.monotonic()`; None: never.

        The last call counts, so a time-out per task is one call before each task and costs a
        microsecond: the master is woken only when a moment comes before the one it waits for.

        When this returns, the moment named before counts no more. A child that is being killed for it never
        returns from here: what it does next cannot be hit by mistake.
        """
        if self._cell.set_kill_at(inf if moment is None else moment):
            signals.ring(self._doorbell)
        while self._cell.is_being_killed:  # looked at after the line above, as the master does it the other way round
            time.sleep(_TAKEN_BACK_SECONDS)

    def status(self, text: str) -> None:
        """Say in a few words what goes on; shown by systemd and in the log on SIGUSR2. Cheap to repeat."""
        self._cell.set_status(text)
        now = monotonic()
        if now - self._status_shown_at >= _STATUS_SECONDS:
            self._status_shown_at = now
            signals.ring(self._doorbell)

    def title(self, text: str) -> None:
        """Show `text` after the pool's title in the process list."""
        set_title(f"{self._title}: {text}" if text else self._title)

    def on_drain(self, hook: Hook) -> None:
        """Call `hook` in the main thread when a stop is asked for, at once if it already was.

        It runs as a signal handler, between any two instructions: set a flag, wake a loop. What it
        raises appears in the code that was interrupted.
        """
        self._drain_hook = hook
        if self.draining:
            self._fire_drain()

    def on_stop_now(self, hook: Hook) -> None:
        """Like `on_drain`, for the second stage."""
        self._stop_now_hook = hook
        if self.stopping_now:
            self._fire_stop_now()

    def on_reopen(self, hook: Hook) -> None:
        """Call `hook` like a signal handler when logs should be opened anew (SIGUSR1)."""
        self._reopen_hook = hook

    def on_master_death(self, hook: Hook) -> None:
        """Call `hook` in the main thread when the master was killed, and end then; only on Linux.

        All children end with their master, whatever killed it. The one that calls this is left for a moment, to tidy
        up after the others, whose own children have nobody who ends them.
        """

        def orphaned(_number: int, _frame: FrameType | None) -> None:
            try:
                hook()
            finally:
                os._exit(EX_SOFTWARE)

        if not linux.can_hear_of_parents_death():
            return
        signal.signal(linux.ORPHANED_SIGNAL, orphaned)
        linux.hear_of_parents_death()
        if os.getppid() != self._master:
            orphaned(0, None)

    def awake(self) -> None:
        """Become the running process: called once, by the machinery, right after the fork."""
        self.pid = os.getpid()
        self._master = os.getppid()
        self.wakeup_fd, self._wakeup_writer = signals.nonblocking_pipe()
        self._cell.beat()
        self.title("")

    def heard_term(self, _number: int, _frame: FrameType | None) -> None:
        self._cell.raise_stage(DRAINING)
        self._cell.note_heard(DRAINING)
        signals.ring(self._wakeup_writer)
        self._fire_drain()

    def heard_quit(self, _number: int, _frame: FrameType | None) -> None:
        self._cell.raise_stage(STOPPING_NOW)
        self._cell.note_heard(STOPPING_NOW)
        signals.ring(self._wakeup_writer)
        self._fire_drain()
        self._fire_stop_now()

    def heard_reopen(self, _number: int, _frame: FrameType | None) -> None:
        if self._reopen_hook is not None:
            self._reopen_hook()

    def returned(self) -> None:
        """Note that `run` has come to its end: an exit code of 0 counts only then."""
        if self.pid == os.getpid():
            self._cell.note_returned()

    def forget_hooks(self) -> None:
        """Once `run` is over, nothing may break into the child's way out."""
        self._drain_hook = self._stop_now_hook = self._reopen_hook = None

    def _fire_drain(self) -> None:
        hook, self._drain_hook = self._drain_hook, None
        if hook is not None:
            hook()

    def _fire_stop_now(self) -> None:
        hook, self._stop_now_hook = self._stop_now_hook, None
        if hook is not None:
            hook()


def set_title(title: str) -> None:
    # Imported late: it costs time that a program's --help should not pay. It writes over the memory that
    # /proc/<pid>/environ shows; os.environ is not touched.
    from setproctitle import setproctitle

    setproctitle(title)

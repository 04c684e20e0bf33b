"""The master's handle of one child."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from pinlater_supervisor import descendants
from pinlater_supervisor.child_page import DRAINING, STOPPING_NOW
from pinlater_supervisor.child_signals import DUMP_SIGNAL
from pinlater_supervisor.exits import ChildExit, peak_rss_bytes, split_status

if TYPE_CHECKING:
    from resource import struct_rusage

    from pinlater_supervisor.child_page import Cell
    from pinlater_supervisor.pool import Pool

NUDGE_SECONDS = 0.05
"""After this time, and then twice as long each time, a child that did not answer a signal gets it again."""
NUDGES = 6


class Process:
    """A child that has not been reaped: what is known of it, and what can be done to it.

    Attributes:
        hurry_at: when it will be told to stop now, on the monotonic clock.
        nudge_at: when it will get its last signal again, should it not have answered.
        kill_at: when it will be killed, for `kill_reason`.
        stretch: its own factor on the pool's limits of age and memory, a little below 1.
        keeps_place: whether it counts as one of its pool, though asked to stop: no other is started for it.
        retire_reason: why it was asked to stop, None if it was not.
        killed: why the master killed it, None if it did not.
        kill_detail: what it had measured then, for people.
        overtime_kill_at: when it will be killed for its time-out, should that still hold then.
    """

    def __init__(self, pool: Pool, slot: int, generation: int, cell: Cell, stretch: float = 1.0) -> None:
        self.pool = pool
        self.slot = slot
        self.generation = generation
        self.cell = cell
        self.stretch = stretch
        self.pid = 0
        self.started_at = monotonic()
        self.hurry_at = inf
        self.kill_at = inf
        self.overtime_kill_at = inf
        self.nudge_at = inf
        self._announced = 0
        self._nudges_left = 0
        self.kill_reason = ""
        self.memory_check_at = 0.0
        self.is_born_heavy = False
        self.is_dumped = False
        self.keeps_place = False
        self.retire_reason: str | None = None
        self.killed: str | None = None
        self.kill_detail = ""

    def __str__(self) -> str:
        return f"{self.pool.name}[{self.slot}] pid {self.pid}"

    @property
    def is_ready(self) -> bool:
        return self.cell.is_ready

    @property
    def is_stopping(self) -> bool:
        return self.retire_reason is not None

    @property
    def has_place(self) -> bool:
        """Whether it counts as one of its pool."""
        return self.keeps_place or not self.is_stopping

    def ask_to_stop(self, reason: str, *, deadline: float, warning_seconds: float) -> None:
        """Let it finish its work by `deadline`, with a last call `warning_seconds` before it is killed."""
        self.hurry_at = min(self.hurry_at, deadline - warning_seconds)
        self.kill_by(deadline, "drain deadline")
        if not self.is_stopping:
            self.retire_reason = reason
            self.cell.raise_stage(DRAINING)
            self._announce(signal.SIGTERM)

    def hurry(self, reason: str) -> None:
        """Tell it to drop its work."""
        self.hurry_at = inf
        self.retire_reason = self.retire_reason or reason
        self.cell.raise_stage(STOPPING_NOW)
        self._announce(signal.SIGQUIT)

    def _announce(self, number: int) -> None:
        self.signal(number)
        self._announced = number
        self._nudges_left = NUDGES
        self.nudge_at = monotonic() + NUDGE_SECONDS

    def nudge(self, now: float) -> None:
        """Send the last signal again, unless the child has answered it.

        A signal that comes just before a system call blocks does not end that call, and Python runs its
        handler only after the call: the next signal does end it.
        """
        if self.cell.has_heard or not self._nudges_left:
            self.nudge_at = inf
            return
        self.signal(self._announced)
        self._nudges_left -= 1
        self.nudge_at = now + NUDGE_SECONDS * 2.0 ** (NUDGES - self._nudges_left)

    def kill_by(self, moment: float, reason: str) -> None:
        if moment < self.kill_at:
            self.kill_at, self.kill_reason = moment, reason

    def kill(self, reason: str, detail: str = "") -> None:
        """End it and all it started that is still in its process group."""
        if self.killed is None:
            self.killed, self.kill_detail = reason, detail
        self.hurry_at = self.kill_at = self.nudge_at = inf
        descendants.kill_below(self.pid)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.signal(signal.SIGKILL)

    def kill_if_overdue(self, now: float, reason: str) -> bool:
        """Kill it unless it has named a later moment, or none; whether it was killed.

        First it is shown that it is being killed, then its wish is read for the last time. The child names its wish
        first and looks then, and waits while it is being killed. So it is either seen to have gone on, or stands still.
        """
        self.cell.set_being_killed(True)
        if self.cell.kill_at_seconds <= now:
            self.kill(reason)
            return True
        self.cell.set_being_killed(False)
        return False

    def exit(self, status: int, usage: struct_rusage, *, oom_has_killed: bool) -> ChildExit:
        """How it ended, once it has been reaped."""
        code, number = split_status(status)
        return ChildExit(
            pool=self.pool.name,
            slot=self.slot,
            pid=self.pid,
            generation=self.generation,
            code=code,
            signal=number,
            peak_rss_bytes=peak_rss_bytes(usage),
            run_seconds=monotonic() - self.started_at,
            was_ready=self.is_ready,
            has_returned=self.cell.has_returned,
            stopping=self.is_stopping,
            killed_by_master=self.killed,
            kill_detail=self.kill_detail,
            oom_suspected=oom_has_killed and number == signal.SIGKILL and self.killed is None,
        )

    def dump(self) -> None:
        """Make it write the stacks of its threads to stderr, also if it was stopped."""
        self.is_dumped = True
        self.signal(DUMP_SIGNAL)
        self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        # Not reaped yet, so the pid cannot belong to anyone else.
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

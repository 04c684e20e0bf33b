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

    from pinlater_supervisor.child_page import ChildPage
    from pinlater_supervisor.pool import Pool

RESEND_SECONDS = 0.05
"""Delay before a signal is sent again to a child that did not answer it; it doubles each time."""
MOST_RESENDS = 6


class ChildProcess:
    """The master's handle of a child that has not been reaped.

    Attributes:
        stop_now_at: when it will be told to stop now, on the monotonic clock.
        resend_at: when its last signal will be sent again if it has not answered.
        kill_at: when it will be killed, for `kill_reason`.
        limit_factor: the child's own factor on the pool's limits of age and memory, a little below 1.
        keeps_slot: whether it still counts in its pool when asked to stop, so that no replacement is started yet.
        retire_reason: why it was asked to stop, None if it was not.
        killed: why the master killed it, None if it did not.
        kill_detail: what the master had measured then, as text.
        timeout_kill_at: when it will be killed for its time-out, unless the child has moved that by then.
    """

    def __init__(self, pool: Pool, slot: int, generation: int, page: ChildPage, limit_factor: float = 1.0) -> None:
        self.pool = pool
        self.slot = slot
        self.generation = generation
        self.page = page
        self.limit_factor = limit_factor
        self.pid = 0
        self.started_at = monotonic()
        self.stop_now_at = inf
        self.kill_at = inf
        self.timeout_kill_at = inf
        self.resend_at = inf
        self._stop_signal = 0
        self._resends_left = 0
        self.kill_reason = ""
        self.memory_check_at = 0.0
        self.starts_over_limit = False
        self.is_dumped = False
        self.keeps_slot = False
        self.retire_reason: str | None = None
        self.killed: str | None = None
        self.kill_detail = ""

    def __str__(self) -> str:
        return f"{self.pool.name}[{self.slot}] pid {self.pid}"

    @property
    def is_ready(self) -> bool:
        return self.page.is_ready

    @property
    def is_stopping(self) -> bool:
        return self.retire_reason is not None

    @property
    def counts_in_pool(self) -> bool:
        """Whether the child counts toward the size of its pool."""
        return self.keeps_slot or not self.is_stopping

    def ask_to_stop(self, reason: str, *, deadline: float, warning_seconds: float) -> None:
        """Let the child finish its work by `deadline`; tell it to stop now `warning_seconds` before it is killed."""
        self.stop_now_at = min(self.stop_now_at, deadline - warning_seconds)
        self.kill_by(deadline, "drain deadline")
        if not self.is_stopping:
            self.retire_reason = reason
            self.page.raise_stage(DRAINING)
            self._send_stop_signal(signal.SIGTERM)

    def stop_now(self, reason: str) -> None:
        """Tell the child to drop its work."""
        self.stop_now_at = inf
        self.retire_reason = self.retire_reason or reason
        self.page.raise_stage(STOPPING_NOW)
        self._send_stop_signal(signal.SIGQUIT)

    def _send_stop_signal(self, number: int) -> None:
        self.signal(number)
        self._stop_signal = number
        self._resends_left = MOST_RESENDS
        self.resend_at = monotonic() + RESEND_SECONDS

    def resend_signal(self, now: float) -> None:
        """Send the last signal again, unless the child has answered it.

        A signal that comes just before a system call blocks does not end that call, and Python runs its
        handler only after the call: the next signal does end it.
        """
        if self.page.has_answered or not self._resends_left:
            self.resend_at = inf
            return
        self.signal(self._stop_signal)
        self._resends_left -= 1
        self.resend_at = now + RESEND_SECONDS * 2.0 ** (MOST_RESENDS - self._resends_left)

    def kill_by(self, moment: float, reason: str) -> None:
        if moment < self.kill_at:
            self.kill_at, self.kill_reason = moment, reason

    def kill(self, reason: str, detail: str = "") -> None:
        """Kill the child, its descendants and its process group."""
        if self.killed is None:
            self.killed, self.kill_detail = reason, detail
        self.stop_now_at = self.kill_at = self.resend_at = inf
        descendants.kill_descendants(self.pid)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.signal(signal.SIGKILL)

    @property
    def timeout_at(self) -> float:
        """When the child is to be killed for its time-out, or one that others have set; inf: never."""
        if self.pool.kill_at is None:
            return self.page.kill_at_seconds
        return min(self.page.kill_at_seconds, self.pool.kill_at(self.slot))

    def kill_if_overdue(self, now: float, reason: str) -> bool:
        """Kill the child unless its `kill_at` has moved to later or never; return whether it was killed.

        The master first announces the kill, then reads `kill_at` for the last time. The child first sets `kill_at`,
        then waits while a kill is announced. So either the master sees the new value, or the child stands still.
        """
        self.page.set_being_killed(True)
        if self.timeout_at <= now:
            self.kill(reason)
            return True
        self.page.set_being_killed(False)
        return False

    def describe_exit(self, status: int, usage: struct_rusage, *, oom_has_killed: bool) -> ChildExit:
        """Describe how the child ended, once it has been reaped."""
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
            has_returned=self.page.has_returned,
            stopping=self.is_stopping,
            killed_by_master=self.killed,
            kill_detail=self.kill_detail,
            oom_suspected=oom_has_killed and number == signal.SIGKILL and self.killed is None,
        )

    def dump(self) -> None:
        """Make the child write the stacks of its threads to stderr, even if it was stopped."""
        self.is_dumped = True
        self.signal(DUMP_SIGNAL)
        self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        # Not reaped yet, so the pid cannot belong to anyone else.
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

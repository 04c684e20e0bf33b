"""Enforces limits on children: deadlines, boot time, heartbeats, time-outs, age, memory."""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from pinlater_supervisor import memory
from pinlater_supervisor.exits import MEMORY_CEILING, TIME_OUT

if TYPE_CHECKING:
    from pinlater_supervisor.process import ChildProcess

log = logging.getLogger("pinlater_supervisor")

DUMP_SECONDS = 0.5
"""Time for a hung child to write its stacks before it is killed; a C handler writes them."""
MEMORY_SECONDS = 1.0
"""Interval between two readings of a child's memory."""
PAUSE_SECONDS = 1.0
"""A master that is so much too late was paused itself, probably with its children, as in a frozen container."""

Recycle = Callable[["ChildProcess", str], None]


class LimitWatch:
    """Checks each child against its limits. Every rule returns when it has to be checked again."""

    def __init__(self, recycle: Recycle) -> None:
        self._recycle = recycle
        self._resumed_at = 0.0
        self._rules = (
            self._deadline,
            self._unanswered_signal,
            self._boot_time,
            self._heartbeat,
            self._task_timeout,
            self._age,
            self._memory,
        )

    def check(self, process: ChildProcess, now: float) -> float:
        """Apply all rules to a child; return when to check it again on the monotonic clock, inf for never."""
        return min(inf if process.killed else rule(process, now) for rule in self._rules)

    def record_pass(self, expected: float, now: float) -> None:
        """Record when a pass of the loop begins, and when it should have; silence in a pause does not count."""
        if now > expected + PAUSE_SECONDS:
            log.warning("%.0f s late: the processes were paused, or the machine is overloaded", now - expected)
            self._resumed_at = now

    def _deadline(self, process: ChildProcess, now: float) -> float:
        if now >= process.kill_at:
            kill(process, process.kill_reason)
        elif now >= process.stop_now_at:
            process.stop_now("drain deadline is near")
        return min(process.stop_now_at, process.kill_at)

    def _unanswered_signal(self, process: ChildProcess, now: float) -> float:
        if now >= process.resend_at:
            process.resend_signal(now)
        return process.resend_at

    def _boot_time(self, process: ChildProcess, now: float) -> float:
        limit = process.pool.ready_seconds
        if limit is None or process.is_ready:
            return inf
        due = max(process.started_at, self._resumed_at) + limit
        if now >= due:
            self._dump_and_kill(process, now, f"not ready after {limit:g} s")
            return process.kill_at
        return due

    def _heartbeat(self, process: ChildProcess, now: float) -> float:
        limit = process.pool.hang_seconds
        if limit is None or not process.is_ready:
            return inf
        due = max(process.page.beat_seconds, self._resumed_at) + limit
        if now >= due:
            self._dump_and_kill(process, now, f"hung: no heartbeat for {limit:g} s")
            return process.kill_at
        return due

    def _task_timeout(self, process: ChildProcess, now: float) -> float:
        # Published before the child's time-out is read: one that is set in between wakes the master.
        process.page.set_next_check_at(inf)
        due = process.timeout_at
        if now >= due:
            return self._time_out(process, now)
        if process.timeout_kill_at < inf:
            self._cancel_kill(process)
        process.page.set_next_check_at(due)
        return due

    def _time_out(self, process: ChildProcess, now: float) -> float:
        """Have a timed-out child write its stacks; kill it after that unless it has moved its time-out."""
        if process.timeout_kill_at == inf and not process.is_dumped:
            log.error("%s: %s; stacks follow, then it is killed", process, TIME_OUT)
            process.dump()
            process.timeout_kill_at = now + DUMP_SECONDS
        if now < process.timeout_kill_at:
            return process.timeout_kill_at
        if process.kill_if_overdue(now, TIME_OUT):
            log.error("%s: killed: %s", process, TIME_OUT)
            return inf
        return now  # its time-out has just moved

    def _cancel_kill(self, process: ChildProcess) -> None:
        log.warning("%s: what had timed out ended by itself; the child is not killed", process)
        process.timeout_kill_at = inf
        process.is_dumped = False

    def _dump_and_kill(self, process: ChildProcess, now: float, reason: str) -> None:
        if process.is_dumped:
            return
        log.error("%s: %s; stacks follow, then it is killed", process, reason)
        process.dump()
        process.kill_by(now + DUMP_SECONDS, reason)

    def _age(self, process: ChildProcess, now: float) -> float:
        limit = process.pool.max_age_seconds
        if limit is None or process.is_stopping or not process.is_ready:
            return inf
        due = process.started_at + limit * process.limit_factor
        if now >= due:
            name = process.pool.called("max_age_seconds")
            self._recycle(process, f"{name}: reached its maximum age of {limit:g} s")
            return inf
        return due

    def _memory(self, process: ChildProcess, now: float) -> float:
        pool = process.pool
        if (pool.max_rss_bytes is None and pool.rss_ceiling_bytes is None) or not process.is_ready:
            return inf
        if now >= process.memory_check_at:
            process.memory_check_at = now + MEMORY_SECONDS
            self._check_memory(process, memory.rss_bytes(process.pid))
        return process.memory_check_at

    def _check_memory(self, process: ChildProcess, rss_bytes: int) -> None:
        ceiling, limit = process.pool.rss_ceiling_bytes, process.pool.max_rss_bytes
        if ceiling is not None and rss_bytes > ceiling:
            name = process.pool.called("rss_ceiling_bytes")
            kill(process, MEMORY_CEILING, f"{rss_bytes / 1e6:.0f} MB, {name} is {ceiling / 1e6:.0f} MB")
        elif limit is not None and not process.is_stopping:
            self._check_recycle_memory(process, rss_bytes, limit * process.limit_factor)

    def _check_recycle_memory(self, process: ChildProcess, rss_bytes: int, limit: float) -> None:
        name, at_start = process.pool.called("max_rss_bytes"), process.page.ready_rss_bytes
        if at_start <= limit < rss_bytes:
            self._recycle(process, f"{name}: grew to {rss_bytes / 1e6:.0f} MB of memory")
        elif at_start > limit and not process.starts_over_limit:
            # A replacement would be as big: recycling would never end.
            process.starts_over_limit = True
            log.error(
                "%s: uses %.0f MB at start, more than its limit of %.0f MB; raise %s. It is not recycled for memory",
                process,
                at_start / 1e6,
                limit / 1e6,
                name,
            )


def kill(process: ChildProcess, reason: str, detail: str = "") -> None:
    """Kill a child and log the reason."""
    log.error("%s: killed: %s", process, ": ".join(filter(None, (reason, detail))))
    process.kill(reason, detail)

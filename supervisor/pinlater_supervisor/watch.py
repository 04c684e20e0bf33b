"""Rules that every child is held to: deadlines, boot time, signs of life, time-outs, age, memory."""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from pinlater_supervisor import memory
from pinlater_supervisor.exits import MEMORY_CEILING, TIME_OUT

if TYPE_CHECKING:
    from pinlater_supervisor.process import Process

log = logging.getLogger("pinlater_supervisor")

DUMP_SECONDS = 0.5
"""What a hung child gets to write its stacks before it is killed; it is a C handler that writes them."""
MEMORY_SECONDS = 1.0
"""Between two looks at a child's memory."""

Recycle = Callable[["Process", str], None]


class Watch:
    """Looks at children when something may be due. Every rule tells when it wants to look again."""

    def __init__(self, recycle: Recycle) -> None:
        self._recycle = recycle
        self._rules = (
            self._deadline,
            self._hearing,
            self._boot,
            self._silence,
            self._overtime,
            self._age,
            self._weight,
        )

    def look(self, process: Process, now: float) -> float:
        """Apply the rules; the moment of the next look on the monotonic clock, inf if none is due ever."""
        return min(inf if process.killed else rule(process, now) for rule in self._rules)

    def _deadline(self, process: Process, now: float) -> float:
        if now >= process.kill_at:
            kill(process, process.kill_reason)
        elif now >= process.hurry_at:
            process.hurry("drain deadline is near")
        return min(process.hurry_at, process.kill_at)

    def _hearing(self, process: Process, now: float) -> float:
        if now >= process.nudge_at:
            process.nudge(now)
        return process.nudge_at

    def _boot(self, process: Process, now: float) -> float:
        limit = process.pool.ready_seconds
        if limit is None or process.is_ready:
            return inf
        if now >= process.started_at + limit:
            self._dump_and_kill(process, now, f"not ready after {limit:g} s")
            return process.kill_at
        return process.started_at + limit

    def _silence(self, process: Process, now: float) -> float:
        limit = process.pool.hang_seconds
        if limit is None or not process.is_ready:
            return inf
        due = process.cell.beat_seconds + limit
        if now >= due:
            self._dump_and_kill(process, now, f"hung: no sign of life for {limit:g} s")
            return process.kill_at
        return due

    def _overtime(self, process: Process, now: float) -> float:
        # Announced before the child's wish is read: a wish that comes in between rings the bell.
        process.cell.set_look_at(inf)
        due = process.cell.kill_at_seconds
        if now >= due:
            return self._sentence(process, now)
        if process.overtime_kill_at < inf:
            self._pardon(process)
        process.cell.set_look_at(due)
        return due

    def _sentence(self, process: Process, now: float) -> float:
        """Have a child that is over its time write its stacks; kill it after that if it still is."""
        if process.overtime_kill_at == inf and not process.is_dumped:
            log.error("%s: %s; stacks follow, then it is killed", process, TIME_OUT)
            process.dump()
            process.overtime_kill_at = now + DUMP_SECONDS
        if now < process.overtime_kill_at:
            return process.overtime_kill_at
        if process.kill_if_overdue(now, TIME_OUT):
            log.error("%s: killed: %s", process, TIME_OUT)
            return inf
        return now  # its wish has changed just now

    def _pardon(self, process: Process) -> None:
        log.warning("%s: what took too long has ended by itself; it is not killed", process)
        process.overtime_kill_at = inf
        process.is_dumped = False

    def _dump_and_kill(self, process: Process, now: float, reason: str) -> None:
        if process.is_dumped:
            return
        log.error("%s: %s; stacks follow, then it is killed", process, reason)
        process.dump()
        process.kill_by(now + DUMP_SECONDS, reason)

    def _age(self, process: Process, now: float) -> float:
        limit = process.pool.max_age_seconds
        if limit is None or process.is_stopping or not process.is_ready:
            return inf
        due = process.started_at + limit * process.stretch
        if now >= due:
            self._recycle(process, f"{process.pool.called('max_age_seconds')}: reached its age of {limit:g} s")
            return inf
        return due

    def _weight(self, process: Process, now: float) -> float:
        pool = process.pool
        if (pool.max_rss_bytes is None and pool.rss_ceiling_bytes is None) or not process.is_ready:
            return inf
        if now >= process.memory_check_at:
            process.memory_check_at = now + MEMORY_SECONDS
            self._weigh(process, memory.rss_bytes(process.pid))
        return process.memory_check_at

    def _weigh(self, process: Process, rss_bytes: int) -> None:
        ceiling, limit = process.pool.rss_ceiling_bytes, process.pool.max_rss_bytes
        if ceiling is not None and rss_bytes > ceiling:
            name = process.pool.called("rss_ceiling_bytes")
            kill(process, MEMORY_CEILING, f"{rss_bytes / 1e6:.0f} MB, {name} is {ceiling / 1e6:.0f} MB")
        elif limit is not None and not process.is_stopping:
            self._weigh_against(process, rss_bytes, limit * process.stretch)

    def _weigh_against(self, process: Process, rss_bytes: int, limit: float) -> None:
        name, at_start = process.pool.called("max_rss_bytes"), process.cell.ready_rss_bytes
        if at_start <= limit < rss_bytes:
            self._recycle(process, f"{name}: grew to {rss_bytes / 1e6:.0f} MB of memory")
        elif at_start > limit and not process.is_born_heavy:
            # A replacement would be as big: recycling would go round and round.
            process.is_born_heavy = True
            log.error(
                "%s: takes %.0f MB when it starts, more than its limit of %.0f MB; raise %s. "
                "It is not recycled for its memory",
                *(process, at_start / 1e6, limit / 1e6, name),
            )


def kill(process: Process, reason: str, detail: str = "") -> None:
    """Kill a child with a line in the log."""
    log.error("%s: killed: %s", process, ": ".join(filter(None, (reason, detail))))
    process.kill(reason, detail)

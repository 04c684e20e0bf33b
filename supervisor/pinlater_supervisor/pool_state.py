"""The living children of one pool: the wanted and the actual number."""

from __future__ import annotations

import random
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING

from pinlater_supervisor.backoff import CrashBackoff
from pinlater_supervisor.child_page import ChildPage
from pinlater_supervisor.process import ChildProcess

if TYPE_CHECKING:
    from pinlater_supervisor.exits import ChildExit
    from pinlater_supervisor.pool import Pool


class PoolState:
    """Tracks a pool's children and decides how many to start or stop; the supervisor does so.

    Attributes:
        size: how many children there should be, including those that finished.
        finished: children that ended with 0 in a pool without restart.
        children: those not reaped yet, by pid, oldest first.
        is_paused: whether no child is started before the next generation.
        delayed_until: moments on the monotonic clock, each of which delays the start of one child.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.size = pool.size
        self.generation = 0
        self.finished = 0
        self.is_paused = False
        self.children: dict[int, ChildProcess] = {}
        self._backoff = CrashBackoff(pool.size)
        self.delayed_until: list[float] = []

    @property
    def wanted(self) -> int:
        return max(0, self.size - self.finished)

    @property
    def ready_count(self) -> int:
        return sum(process.is_ready and process.counts_in_pool for process in self.children.values())

    @property
    def unready_reason(self) -> str:
        """Why the pool is not ready, as text; "" if all wanted children are ready."""
        ready, wanted = self.ready_count, self.wanted
        return f"pool {self.pool.name}: {ready} of {wanted} children ready" if ready < wanted else ""

    @property
    def summary(self) -> str:
        """How many children are ready, and the status of a pool's only child."""
        texts = [process.page.status for process in self.children.values()] if self.size == 1 else []
        return " ".join([f"{self.pool.name} {self.ready_count}/{self.wanted}", *filter(None, texts)])

    @property
    def has_reloaded(self) -> bool:
        """Whether all wanted children of the current generation are ready."""
        return sum(process.is_ready for process in self._current()) >= self.wanted

    @property
    def is_finished(self) -> bool:
        return not self.pool.restart and self.wanted == 0 and not self.children

    def missing_count(self, now: float) -> int:
        """Count the children to start now."""
        self.delayed_until = [moment for moment in self.delayed_until if moment > now]
        if self.is_paused:
            return 0
        present = sum(p.counts_in_pool and p.generation == self.generation for p in self.children.values())
        missing = self.wanted - present - len(self.delayed_until)
        if not self.pool.overlap:
            missing = min(missing, self.wanted - len(self.children))
        return max(0, missing)

    def surplus(self) -> list[ChildProcess]:
        """Return the children to stop: too many, or replaced by ready ones of a new generation.

        Those that are not ready come first (they may never be), then the oldest.
        """
        current = sorted(self._current(), key=attrgetter("is_ready"))
        outdated = sorted(self._outdated(), key=attrgetter("is_ready"))
        ready = sum(process.is_ready for process in current)
        keep = max(0, self.wanted - ready) if self.pool.overlap else 0
        return outdated[: max(0, len(outdated) - keep)] + current[: max(0, len(current) - self.wanted)]

    def start_generation(self) -> None:
        """Start a new generation, with a fresh crash backoff."""
        self.generation += 1
        self.is_paused = False
        self._backoff = CrashBackoff(self.size)
        self.delayed_until.clear()

    def pause(self, generation: int) -> bool:
        """Start no more children of a generation; return whether it is the current one and was not paused yet."""
        is_new = generation == self.generation and not self.is_paused
        self.is_paused = self.is_paused or is_new
        return is_new

    def new_child(self) -> ChildProcess:
        """Return a child process that is not forked yet."""
        taken = {process.slot for process in self.children.values()}
        slot = next(number for number in count() if number not in taken)
        limit_factor = 1.0 - self.pool.recycle_jitter * random.random()  # noqa: S311 - spreads load, guards nothing
        return ChildProcess(self.pool, slot, self.generation, ChildPage(), limit_factor)

    def record_exit(self, ended: ChildExit, now: float) -> None:
        """Count the exit of a child, and decide whether and when a replacement follows."""
        if ended.stopping:
            return
        if ended.is_clean and not self.pool.restart:
            self.finished += 1
            return
        delay = self._backoff.delay_seconds(ended, now)
        if delay > 0:
            self.delay_start(now + delay)

    def delay_start(self, until: float) -> None:
        """Start one child fewer until that moment."""
        self.delayed_until.append(until)

    def _current(self) -> list[ChildProcess]:
        return [p for p in self.children.values() if not p.is_stopping and p.generation == self.generation]

    def _outdated(self) -> list[ChildProcess]:
        return [p for p in self.children.values() if not p.is_stopping and p.generation < self.generation]

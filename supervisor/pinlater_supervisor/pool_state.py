"""The living children of one pool: how many there should be, and how many there are."""

from __future__ import annotations

import random
from itertools import count
from typing import TYPE_CHECKING

from pinlater_supervisor.backoff import Backoff
from pinlater_supervisor.child_page import Cell
from pinlater_supervisor.process import Process

if TYPE_CHECKING:
    from pinlater_supervisor.exits import ChildExit
    from pinlater_supervisor.pool import Pool


class Crew:
    """Compares the wanted number with the actual one; starting and stopping is the supervisor's part.

    Attributes:
        size: how many children there should be, but for those that finished.
        finished: children that ended with 0 in a pool without restart.
        members: all that are not reaped, by pid, oldest first.
        is_paused: whether nothing is started before the next generation.
        held_until: moments before which one start each is held back, on the monotonic clock.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.size = pool.size
        self.generation = 0
        self.finished = 0
        self.is_paused = False
        self.members: dict[int, Process] = {}
        self._backoff = Backoff(pool.size)
        self.held_until: list[float] = []

    @property
    def wanted(self) -> int:
        return max(0, self.size - self.finished)

    @property
    def ready_count(self) -> int:
        return sum(process.is_ready and process.has_place for process in self.members.values())

    @property
    def why_unready(self) -> str:
        """What is missing, in words; "" if all children that are wanted are ready."""
        ready, wanted = self.ready_count, self.wanted
        return f"pool {self.pool.name}: {ready} of {wanted} children ready" if ready < wanted else ""

    @property
    def in_words(self) -> str:
        """How many children are ready, and what the child says that has a crew to itself."""
        texts = [process.cell.status for process in self.members.values()] if self.size == 1 else []
        return " ".join([f"{self.pool.name} {self.ready_count}/{self.wanted}", *filter(None, texts)])

    @property
    def is_renewed(self) -> bool:
        """Whether all children wanted of the present generation are ready."""
        return sum(process.is_ready for process in self._current()) >= self.wanted

    @property
    def is_finished(self) -> bool:
        return not self.pool.restart and self.wanted == 0 and not self.members

    def missing(self, now: float) -> int:
        """How many children may be started now."""
        self.held_until = [moment for moment in self.held_until if moment > now]
        if self.is_paused:
            return 0
        present = sum(p.has_place and p.generation == self.generation for p in self.members.values())
        missing = self.wanted - present - len(self.held_until)
        if not self.pool.overlap:
            missing = min(missing, self.wanted - len(self.members))
        return max(0, missing)

    def surplus(self) -> list[Process]:
        """Children to retire: too many, or replaced by ready ones of a new generation.

        First those that do not work yet (they may never), then the oldest.
        """
        current = sorted(self._current(), key=_is_ready)
        outdated = sorted(self._outdated(), key=_is_ready)
        ready = sum(process.is_ready for process in current)
        keep = max(0, self.wanted - ready) if self.pool.overlap else 0
        return outdated[: max(0, len(outdated) - keep)] + current[: max(0, len(current) - self.wanted)]

    def renew(self) -> None:
        """Want a new generation; what the old one failed at is not held against it."""
        self.generation += 1
        self.is_paused = False
        self._backoff = Backoff(self.size)
        self.held_until.clear()

    def pause(self, generation: int) -> bool:
        """Start no more of that generation; whether that is news: it is the present one, and was not paused."""
        is_news = generation == self.generation and not self.is_paused
        self.is_paused = self.is_paused or is_news
        return is_news

    def newcomer(self) -> Process:
        """A process that is not forked yet."""
        taken = {process.slot for process in self.members.values()}
        slot = next(number for number in count() if number not in taken)
        stretch = 1.0 - self.pool.recycle_jitter * random.random()  # noqa: S311 - spreads load, guards nothing
        return Process(self.pool, slot, self.generation, Cell(), stretch)

    def note_exit(self, ended: ChildExit, now: float) -> None:
        """Decide whether and when a replacement follows."""
        if ended.stopping:
            return
        if ended.is_clean and not self.pool.restart:
            self.finished += 1
            return
        delay = self._backoff.delay_seconds(ended, now)
        if delay > 0:
            self.hold_back(now + delay)

    def hold_back(self, until: float) -> None:
        """Start one child less until then."""
        self.held_until.append(until)

    def _current(self) -> list[Process]:
        return [p for p in self.members.values() if not p.is_stopping and p.generation == self.generation]

    def _outdated(self) -> list[Process]:
        return [p for p in self.members.values() if not p.is_stopping and p.generation < self.generation]


def _is_ready(process: Process) -> bool:
    return process.is_ready

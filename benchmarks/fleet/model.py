"""What the models have in common: shards, time, and what is counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.fleet.costs import ROUND_TRIP_SECONDS
from benchmarks.fleet.load import Load
from benchmarks.fleet.shard import CLAIM_STATEMENTS, EMPTY_CLAIM_STATEMENTS, Job, Shard
from benchmarks.fleet.timeline import Steps, Timeline
from benchmarks.fleet.worker import Worker


@dataclass(slots=True)
class Counts:
    """What has happened so far.

    Attributes:
        calls: dequeues that workers have sent.
        asked: attempts of a dequeue for a queue in which a shard was asked; one that waits attempts each time it is
            woken.
        found_nothing: of these, the ones that got no job.
        passed_on: calls that went through two servers.
        messages: that servers have sent to each other of new jobs.
    """

    calls: int = 0
    asked: int = 0
    found_nothing: int = 0
    passed_on: int = 0
    messages: int = 0


class Model(ABC):
    """A way in which servers find due jobs on shards.

    Attributes:
        counts: what has happened.
        handed_out: jobs by the number of the server that has claimed them.

    Args:
        timeline: for the time.
        load: the size of the fleet.
        shards: of the fleet.
        random: for what is random in it; the jobs do not depend on it, so they are the same for all models.
    """

    def __init__(self, timeline: Timeline, load: Load, shards: Sequence[Shard], random: Random) -> None:
        self.counts = Counts()
        self.handed_out: Counter[int] = Counter()
        self.timeline, self.load, self.shards, self.random = timeline, load, shards, random

    def background(self) -> Iterable[Steps[None]]:
        """Return what goes on in servers besides calls."""
        return ()

    @abstractmethod
    def dequeue(self, worker: Worker) -> Steps[list[Job]]:
        """Claim jobs for a worker: one at least, ``BATCH`` at most."""

    @abstractmethod
    def stored(self, server: int, queue: int, shard: int) -> None:
        """Let a server know that it has just stored a job."""

    def count_attempt(self, server: int, found: Sequence[Job]) -> None:
        """Count an attempt in which a shard was asked."""
        self.counts.asked += 1
        self.counts.found_nothing += not found
        self.handed_out[server] += len(found)


def claim_from(shard: Shard, queue: int, most: int) -> Steps[list[Job]]:
    """Claim due jobs of a queue from one shard."""
    yield shard.ask(EMPTY_CLAIM_STATEMENTS)
    found = shard.claim(queue, most)
    if found:
        shard.ask(CLAIM_STATEMENTS - EMPTY_CLAIM_STATEMENTS, jobs=len(found))
    yield ROUND_TRIP_SECONDS
    return found

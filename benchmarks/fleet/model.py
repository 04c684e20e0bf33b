"""What the models have in common: shards, time and counts."""

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
    """Counts so far.

    Attributes:
        calls: number of dequeues that workers have sent.
        asked: number of attempts of dequeues that asked a shard for jobs of a queue; a waiting dequeue makes an attempt
            each time it is woken.
        found_nothing: number of these attempts that got no job.
        passed_on: number of calls that went through two servers.
        messages: number of messages about new jobs between servers.
    """

    calls: int = 0
    asked: int = 0
    found_nothing: int = 0
    passed_on: int = 0
    messages: int = 0


class Model(ABC):
    """A way for servers to find due jobs on shards.

    Attributes:
        counts: counts of what has happened.
        handed_out: number of the server -> number of jobs that it has claimed.

    Args:
        timeline: the simulated time.
        load: the fleet.
        shards: shards of the fleet.
        random: random numbers of the model; jobs do not depend on them, so they are the same for all models.
    """

    def __init__(self, timeline: Timeline, load: Load, shards: Sequence[Shard], random: Random) -> None:
        self.counts = Counts()
        self.handed_out: Counter[int] = Counter()
        self.timeline, self.load, self.shards, self.random = timeline, load, shards, random

    def background(self) -> Iterable[Steps[None]]:
        """Return what servers do in the background."""
        return ()

    @abstractmethod
    def dequeue(self, worker: Worker) -> Steps[list[Job]]:
        """Claim at least one and at most ``BATCH`` jobs for a worker."""

    @abstractmethod
    def stored(self, server: int, queue: int, shard: int) -> None:
        """Tell a server that it has just stored a job."""

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

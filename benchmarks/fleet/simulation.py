"""One run: jobs come, workers ask for them, and a model determines how servers find them."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, count
from random import Random
from typing import Any

from benchmarks.figures import percentile
from benchmarks.fleet.costs import ROUND_TRIP_SECONDS, Cores, cores_of
from benchmarks.fleet.known import Homes, Known
from benchmarks.fleet.load import START_SECONDS, Load
from benchmarks.fleet.model import Model
from benchmarks.fleet.priorities import Priorities
from benchmarks.fleet.scan import Scan
from benchmarks.fleet.shard import ACK_STATEMENTS, ENQUEUE_STATEMENTS, Job, Shard
from benchmarks.fleet.timeline import Steps, Timeline
from benchmarks.fleet.worker import Worker

MODELS: dict[str, type[Model]] = {"scan": Scan, "priorities": Priorities, "known": Known, "homes": Homes}

_PATIENCE_SECONDS = 10.0
"""Simulated time after the last enqueue for the jobs that are still due."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a run.

    Attributes:
        seconds: simulated time that counts.
        jobs: number of jobs enqueued in that time.
        stored, claimed: number of jobs in the whole run.
        claimed_twice: number of jobs that two dequeues got.
        statements_a_job: statements on all shards for everything: enqueues, claims, acks, and vain queries; None if
            there were no jobs.
        found_nothing: share of the attempts of dequeues that asked a shard and got no job.
        statements_a_second: average number of statements on each shard.
        busiest_shard: share of its processor's time that the busiest shard needs; from 1.0 it cannot keep up.
        busiest_server: share of all jobs that the busiest server hands out.
        messages_a_second: number of messages about new jobs, to all servers together.
        wait_ms: percentile -> milliseconds from the answer to the enqueue until a worker has the job.
        cores: processors kept busy.
    """

    seconds: float
    jobs: int
    stored: int
    claimed: int
    claimed_twice: int
    statements_a_job: float | None
    found_nothing: float
    statements_a_second: float
    busiest_shard: float
    busiest_server: float
    messages_a_second: float
    wait_ms: dict[int, float]
    cores: Cores

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        return asdict(self) | {"cores": self.cores._asdict()}


@dataclass(frozen=True, slots=True)
class _Sums:
    """Counts up to a moment."""

    at: float
    statements: int
    busy_seconds: Sequence[float]
    calls: int
    asked: int
    found_nothing: int
    passed_on: int
    messages: int
    stored: int
    handed_out: Counter[int]


class Simulation:
    """A fleet under one model.

    Args:
        load: the fleet, and its jobs.
        model: the name of the model.
    """

    def __init__(self, load: Load, model: str) -> None:
        self._load = load
        self._timeline = Timeline()
        self._shards = [Shard(self._timeline, number) for number in range(load.shards)]
        self._jobs_random, own = Random(load.seed), Random(load.seed + 1)
        self._model = MODELS[model](self._timeline, load, self._shards, own)
        self._random = own
        self._enqueued = self._stored = 0
        self._claimed: Counter[int] = Counter()
        self._waits: list[float] = []
        self._begins = load.warm_up_seconds
        self._ends = self._begins + load.seconds

    def run(self) -> Outcome:
        """Simulate until all jobs are claimed, or for ``_PATIENCE_SECONDS`` after the last enqueue."""
        for steps in self._model.background():
            self._timeline.start(steps)
        for number, queues in enumerate(self._load.queues_of_workers()):
            worker = Worker(number % self._load.servers, queues)
            worker.process = self._timeline.start(self._work(worker))
        self._timeline.start(self._arrive())
        self._timeline.run(self._begins)
        begun = self._sums()
        self._timeline.run(self._ends)
        ended = self._sums()
        while len(self._claimed) < self._enqueued and self._timeline.now < self._ends + _PATIENCE_SECONDS:
            self._timeline.run(self._timeline.now + 0.5)
        return self._outcome(begun, ended)

    def _arrive(self) -> Steps[None]:
        """Enqueue jobs one by one, each at any server and on any shard."""
        ends, random = list(accumulate(self._load.shares())), self._jobs_random
        yield START_SECONDS
        for number in count():
            yield random.expovariate(self._load.jobs_a_second) if self._load.jobs_a_day else self._ends
            if self._timeline.now >= self._ends:
                return
            queue = min(bisect(ends, random.random()), len(ends) - 1)
            server, shard = random.randrange(self._load.servers), random.choice(self._shards)
            self._enqueued += 1
            self._timeline.start(self._enqueue(number, queue, server, shard))

    def _enqueue(self, number: int, queue: int, server: int, shard: Shard) -> Steps[None]:
        yield shard.ask(ENQUEUE_STATEMENTS) + ROUND_TRIP_SECONDS
        shard.add(number, queue)
        self._stored += 1
        self._model.stored(server, queue, shard.number)

    def _work(self, worker: Worker) -> Steps[None]:
        yield self._random.random() * START_SECONDS
        while True:
            jobs = yield from self._model.dequeue(worker)
            self._record(jobs)
            yield len(jobs) * self._load.job_seconds
            shards = {job.shard for job in jobs}
            yield max(self._shards[number].ask(ACK_STATEMENTS) for number in sorted(shards)) + ROUND_TRIP_SECONDS

    def _record(self, jobs: Sequence[Job]) -> None:
        self._claimed.update(job.number for job in jobs)
        now = self._timeline.now
        self._waits += [now - job.stored_at for job in jobs if self._begins <= job.stored_at <= self._ends]

    def _sums(self) -> _Sums:
        return _Sums(
            at=self._timeline.now,
            statements=sum(shard.statements for shard in self._shards),
            busy_seconds=[shard.busy_seconds for shard in self._shards],
            stored=self._stored,
            handed_out=self._model.handed_out.copy(),
            **asdict(self._model.counts),
        )

    def _outcome(self, begun: _Sums, ended: _Sums) -> Outcome:
        seconds = ended.at - begun.at
        statements = ended.statements - begun.statements
        jobs, asked = ended.stored - begun.stored, ended.asked - begun.asked
        handed_out = ended.handed_out - begun.handed_out
        busy = [after - before for before, after in zip(begun.busy_seconds, ended.busy_seconds, strict=True)]
        return Outcome(
            seconds=seconds,
            jobs=jobs,
            stored=self._stored,
            claimed=len(self._claimed),
            claimed_twice=sum(times > 1 for times in self._claimed.values()),
            statements_a_job=statements / jobs if jobs else None,
            found_nothing=(ended.found_nothing - begun.found_nothing) / max(asked, 1),
            statements_a_second=statements / seconds / len(self._shards),
            busiest_shard=max(busy) / seconds,
            busiest_server=max(handed_out.values(), default=0) / max(handed_out.total(), 1),
            messages_a_second=(ended.messages - begun.messages) / seconds,
            wait_ms={percent: percentile(self._waits, percent) * 1000 for percent in (50, 99) if self._waits},
            cores=cores_of(
                statements=statements / seconds,
                jobs=handed_out.total() / seconds,
                calls=(ended.calls - begun.calls) / seconds,
                passed_on=(ended.passed_on - begun.passed_on) / seconds,
            ),
        )


def simulate(load: Load, model: str) -> Outcome:
    """Simulate a fleet under a model; the same load, which includes the seed, always gives the same outcome."""
    return Simulation(load, model).run()

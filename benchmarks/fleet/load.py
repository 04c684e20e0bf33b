"""What a fleet has to do: its size, how its jobs are spread over queues, and which workers serve which queues."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

SECONDS_A_DAY = 86_400
EXPONENT = 1.8
"""The queue of rank n gets a share of the jobs like n to the power of -1.8: of 500 queues, the first gets half of all
jobs, the last ten get one job in ten thousand together."""

START_SECONDS = 1.0
"""Workers begin one after the other within this time, and jobs come when all of them wait."""

WORKER_LOAD = 0.3
"""Share of their time in which workers run jobs: waits shall tell of the ways to find jobs, not of missing workers."""

LONGEST_JOB_SECONDS = 1.0

_EVENTS = 400_000
_VISITS_A_JOB = 5
_LONGEST_SECONDS = 60.0
_SHORTEST_WARM_UP_SECONDS, _LONGEST_WARM_UP_SECONDS = 2.5, 10.0
_WARM_UP_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class Load:
    """A fleet, and its jobs.

    Attributes:
        queues: their number; most are nearly idle.
        jobs_a_day: of all queues together.
        shards: databases.
        servers: each takes a like share of the enqueues and of the workers.
        workers: job processes, each with one dequeue under way.
        seed: of all that is random.
    """

    queues: int = 500
    jobs_a_day: int = 1_000_000_000
    shards: int = 12
    servers: int = 6
    workers: int = 400
    seed: int = 1

    @property
    def jobs_a_second(self) -> float:
        """Return the rate of all queues together."""
        return self.jobs_a_day / SECONDS_A_DAY

    @property
    def job_seconds(self) -> float:
        """Return how long a job runs."""
        return min(WORKER_LOAD * self.workers / self.jobs_a_second, LONGEST_JOB_SECONDS) if self.jobs_a_day else 0.0

    @property
    def seconds(self) -> float:
        """Return the time to simulate: the more happens in a second, the fewer seconds.

        Nothing else is scaled: jobs come at their full rate, to all shards, servers and workers.
        """
        polls = 2 * max(self.queues, self.workers) * self.shards
        return min(_EVENTS / (_VISITS_A_JOB * self.jobs_a_second + polls), _LONGEST_SECONDS)

    @property
    def warm_up_seconds(self) -> float:
        """Return the time before that, in which all workers ask, all servers look, and polls slow down."""
        least = max(self.seconds * _WARM_UP_SHARE, _SHORTEST_WARM_UP_SECONDS)
        return min(least, _LONGEST_WARM_UP_SECONDS)

    def shares(self) -> list[float]:
        """Return each queue's share of the jobs, largest first."""
        weights = [rank**-EXPONENT for rank in range(1, self.queues + 1)]
        total = sum(weights)
        return [weight / total for weight in weights]

    def queues_of_workers(self) -> list[list[int]]:
        """Return the queues that each worker serves.

        Queues stand in a row, each as wide as its share of the jobs, and the row is cut into a piece for each worker:
        a busy queue has many workers, one worker has many idle queues. Each queue also has the next worker, which is
        connected to another server.
        """
        served: list[dict[int, None]] = [{} for _ in range(self.workers)]
        ends = list(accumulate(self.shares()))
        for queue, (start, end) in enumerate(zip([0.0, *ends], ends, strict=False)):
            first, last = (min(int(place * self.workers), self.workers - 1) for place in (start, end))
            for worker in range(first, last + 2):
                served[worker % self.workers][queue] = None
        return [list(queues) for queues in served]

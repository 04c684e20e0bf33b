"""The load of a fleet: its size, how its jobs are spread over queues, and which workers serve which queues."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

SECONDS_A_DAY = 86_400
EXPONENT = 1.8
"""The share of the queue of rank n is proportional to n to the power of -1.8: of 500 queues, the first gets half of all
jobs, and the last ten together get one job in ten thousand."""

START_SECONDS = 1.0
"""Workers start one after the other within this time; jobs come when all of them wait."""

WORKER_LOAD = 0.3
"""Share of their time in which workers run jobs: low, so that jobs wait to be found, not for lack of workers."""

LONGEST_JOB_SECONDS = 1.0

_EVENTS = 400_000
_VISITS_A_JOB = 5
_LONGEST_SECONDS = 60.0
_SHORTEST_WARM_UP_SECONDS, _LONGEST_WARM_UP_SECONDS = 2.5, 10.0
_WARM_UP_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class Load:
    """A fleet and its jobs.

    Attributes:
        queues: number of queues; most are nearly idle.
        jobs_a_day: number of jobs of all queues together.
        shards: number of databases.
        servers: number of servers; each has an equal share of the enqueues and of the workers.
        workers: number of job processes, each with one dequeue in flight.
        seed: seed of everything random.
    """

    queues: int = 500
    jobs_a_day: int = 1_000_000_000
    shards: int = 12
    servers: int = 6
    workers: int = 400
    seed: int = 1

    @property
    def jobs_a_second(self) -> float:
        """Return the number of jobs per second of all queues together."""
        return self.jobs_a_day / SECONDS_A_DAY

    @property
    def job_seconds(self) -> float:
        """Return how many seconds a job runs."""
        return min(WORKER_LOAD * self.workers / self.jobs_a_second, LONGEST_JOB_SECONDS) if self.jobs_a_day else 0.0

    @property
    def seconds(self) -> float:
        """Return the seconds to simulate: the more happens in a second, the fewer.

        Nothing else is scaled: jobs come at their full rate, to all shards, servers and workers.
        """
        polls = 2 * max(self.queues, self.workers) * self.shards
        return min(_EVENTS / (_VISITS_A_JOB * self.jobs_a_second + polls), _LONGEST_SECONDS)

    @property
    def warm_up_seconds(self) -> float:
        """Return the seconds before that, in which all workers ask for jobs, all servers poll, and polls slow down."""
        least = max(self.seconds * _WARM_UP_SHARE, _SHORTEST_WARM_UP_SECONDS)
        return min(least, _LONGEST_WARM_UP_SECONDS)

    def shares(self) -> list[float]:
        """Return each queue's share of the jobs, largest first."""
        weights = [rank**-EXPONENT for rank in range(1, self.queues + 1)]
        total = sum(weights)
        return [weight / total for weight in weights]

    def queues_of_workers(self) -> list[list[int]]:
        """Return the queues that each worker serves.

        Queues form a row, each as wide as its share of the jobs, and the row is cut into equal pieces, one per worker:
        a busy queue has many workers, and one worker may have many idle queues. Each queue is also served by the next
        worker, which is connected to another server.
        """
        served: list[dict[int, None]] = [{} for _ in range(self.workers)]
        ends = list(accumulate(self.shares()))
        for queue, (start, end) in enumerate(zip([0.0, *ends], ends, strict=False)):
            first, last = (min(int(place * self.workers), self.workers - 1) for place in (start, end))
            for worker in range(first, last + 2):
                served[worker % self.workers][queue] = None
        return [list(queues) for queues in served]

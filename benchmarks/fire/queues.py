"""The queues for fault injection, each with different rules, and the names of their jobs."""

from __future__ import annotations

from typing import NamedTuple, Self

from pinlater.model.keys import JobKey


class QueueRules(NamedTuple):
    """The rules for the jobs of a queue.

    Attributes:
        name: name of the queue.
        keys: keys that its jobs share; empty if they have none.
        running_per_key: maximum number of jobs of a key that run at once; None for no limit.
        is_ordered: whether the jobs of a key run one after the other.
        starts_per_second: rate limit of each key, at most 20, so that no jobs start together; None for no limit.
        jobs_per_second: rate limit of the queue; None if it has none.
        job_class: class as which ``pinlater-worker`` runs its jobs; None if plain consumers take them.
        pause_seconds: average pause between two enqueues of a producer; each key has its own producer.
        batches: how many jobs an enqueue may store.
        consumers: how many consumers it has in each process of consumers.
        limits: how many jobs a consumer may ask for.
        attempts: attempts of its jobs.
        failing_share: how many of the attempts fail.
        is_meddled_with: whether jobs are cancelled, deleted, rescheduled and, after their last attempt, retried.
    """

    name: str
    keys: tuple[str, ...] = ()
    running_per_key: int | None = None
    is_ordered: bool = False
    starts_per_second: int | None = None
    jobs_per_second: float | None = None
    job_class: str | None = None
    pause_seconds: float = 0.5
    batches: tuple[int, ...] = (1, 1, 4)
    consumers: int = 1
    limits: tuple[int, ...] = (1, 1, 3)
    attempts: int = 1000
    failing_share: float = 0.08
    is_meddled_with: bool = False

    def job_key(self, key: str) -> JobKey | None:
        """Return the key of a job; None for a queue without keys."""
        if not self.keys:
            return None
        rate = None if self.starts_per_second is None else f"{self.starts_per_second}/s"
        return JobKey(key, self.running_per_key, self.is_ordered, rate)

    @property
    def most_running(self) -> int | None:
        """How many jobs of a key may run at once."""
        return 1 if self.is_ordered else self.running_per_key


class JobName(NamedTuple):
    """Name of a job, which is part of its body.

    Attributes:
        queue: queue that it was enqueued to.
        key: its key; empty for none.
        number: its number among the jobs of the key; jobs of an ordered key run in this order.
    """

    queue: str
    key: str
    number: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the output of ``str``."""
        queue, key, number = text.split("|")
        return cls(queue, key, int(number))

    def __str__(self) -> str:
        return f"{self.queue}|{self.key}|{self.number}"


def _keys(count: int) -> tuple[str, ...]:
    return tuple(f"k{number}" for number in range(count))


QUEUES = {
    rules.name: rules
    for rules in (
        QueueRules("plain", pause_seconds=0.15),
        QueueRules("fifo", ("all",), is_ordered=True),
        QueueRules("ordered", ("o1", "o2", "o3", "o4"), is_ordered=True),
        QueueRules("limited", ("l1", "l2", "l3"), running_per_key=2),
        QueueRules("rated", jobs_per_second=10.0, pause_seconds=0.15),
        QueueRules("worker_plain", job_class="Plain", pause_seconds=0.25),
        QueueRules("worker_ordered", ("w1", "w2"), is_ordered=True, job_class="Ordered"),
        QueueRules("worker_limited", ("x1", "x2"), running_per_key=2, job_class="Limited"),
        QueueRules(
            "many_ordered", _keys(40), is_ordered=True, pause_seconds=3.0, batches=(1, 1, 4, 30),
            consumers=4, limits=(1, 3, 10),
        ),
        QueueRules(
            "many_limited", _keys(20), 5, pause_seconds=4.0, batches=(1, 1, 4, 30), consumers=3, limits=(1, 3, 10)
        ),
        QueueRules("paced", _keys(6), starts_per_second=5, pause_seconds=0.7),
        QueueRules(
            "meddled_ordered", _keys(10), is_ordered=True, pause_seconds=1.0,
            attempts=3, failing_share=0.3, is_meddled_with=True,
        ),
        QueueRules(
            "meddled_limited", _keys(4), 2, pause_seconds=1.0, attempts=3, failing_share=0.3, is_meddled_with=True
        ),
    )
}  # fmt: skip

QUEUE_SETS = {
    "mixed": (
        "plain", "fifo", "ordered", "limited", "rated", "worker_plain", "worker_ordered", "worker_limited",
    ),
    "keys": (
        "fifo", "many_ordered", "many_limited", "paced", "meddled_ordered", "meddled_limited",
        "worker_ordered", "worker_limited",
    ),
}  # fmt: skip
"""Name -> queues of a trial. With ``keys``, there are at least 16 consumers and over 200 jobs a second."""

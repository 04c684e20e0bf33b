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
        jobs_per_second: its rate limit; None if it has none.
        job_class: class as which ``pinlater-worker`` runs its jobs; None if plain consumers take them.
        pause_seconds: average pause between two enqueues of a producer; each key has its own producer.
    """

    name: str
    keys: tuple[str, ...] = ()
    running_per_key: int | None = None
    is_ordered: bool = False
    jobs_per_second: float | None = None
    job_class: str | None = None
    pause_seconds: float = 0.5

    def job_key(self, key: str) -> JobKey | None:
        """Return the key of a job; None for a queue without keys."""
        return JobKey(key, self.running_per_key, is_ordered=self.is_ordered) if self.keys else None

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
    )
}

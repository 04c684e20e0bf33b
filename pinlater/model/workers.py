"""Workers: what they report about themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class RunningJob(NamedTuple):
    """A job that a worker reports to be running.

    Attributes:
        descriptor: address of the job.
        since_ms: when this run began, epoch milliseconds by the worker's clock.
    """

    descriptor: str
    since_ms: int


class WorkerProcess(NamedTuple):
    """A job process, as its worker reports it; what is not reported is None.

    Attributes:
        pid: its process id.
        pool: name of its pool.
        queues: queues that it takes jobs from.
        started_ms: when it started, epoch milliseconds by the worker's clock.
        memory_bytes: its resident memory.
        slots: how many jobs it can run at the same time.
        ended: how many jobs have ended in it, whatever their outcome.
        jobs: the jobs that it runs.
        memory_at_start_bytes: its resident memory without what it steadily gains from job to job.
    """

    pid: int
    pool: str | None = None
    queues: Sequence[str] = ()
    started_ms: int | None = None
    memory_bytes: int | None = None
    slots: int | None = None
    ended: int | None = None
    jobs: Sequence[RunningJob] = ()
    memory_at_start_bytes: int | None = None


class UnknownJobs(NamedTuple):
    """Jobs that a worker has given back within the last minutes because they do not fit its code.

    Attributes:
        queue: their queue.
        name: name of their class in their bodies; ``(unreadable)`` if they name none.
        returned: how often the worker has given one back, counting the same job each time.
        last_ms: when it last did so, epoch milliseconds by the worker's clock.
        first_ms: when it began to do so, without a break of ten minutes since; servers and workers of older versions do
            not say it.
    """

    queue: str
    name: str
    returned: int | None = None
    last_ms: int | None = None
    first_ms: int | None = None


class QueueLoad(NamedTuple):
    """What a worker has recently run of a queue with a ``latency_target``.

    Attributes:
        queue: its name.
        target_ms: the smallest ``latency_target`` of its classes.
        slots: how many of its jobs the worker can run at the same time.
        running: how many it runs now.
        window_ms: length of the period up to now that ``runs`` and ``busy_ms`` are about.
        runs: how many runs ended in that period, whatever their outcome.
        busy_ms: how long slots ran its jobs in that period, summed over all slots.
    """

    queue: str
    target_ms: int
    slots: int = 0
    running: int = 0
    window_ms: int = 0
    runs: int = 0
    busy_ms: int = 0


class JobClass(NamedTuple):
    """A job class that a worker knows.

    Attributes:
        name: its name in bodies.
        queue: queue that its jobs are enqueued to by default.
        priority: default priority of its jobs; None if unknown.
        attempts: default number of attempts of its jobs; None if unknown.
        schema: JSON schema of its bodies; empty if it has none, or if the report has no space for it.
    """

    name: str
    queue: str
    priority: int | None = None
    attempts: int | None = None
    schema: str = ""


class WorkerReport(NamedTuple):
    """What a worker, a master with its job processes, reports about itself; what is not reported is None.

    Attributes:
        id: identifies the worker among all others, including earlier ones on the same host.
        host: where it runs.
        pid: process id of the master.
        version: version of PinLater.
        python: version of Python.
        started_ms: when it started, epoch milliseconds by its own clock.
        is_draining: whether it takes no more jobs, and exits when the running ones have ended.
        processes: its job processes.
        reported_ms: when the report arrived, epoch milliseconds by the store's clock; None in one that is to be sent.
        unknown: jobs that it gets but cannot read, since it does not know their class or their fields.
        loads: what it has recently run of queues with a ``latency_target``.
        sent_ms: when the report was sent, epoch milliseconds by the worker's clock.
        classes: job classes that it knows, as far as the report has space for them.
        lost_ms: when its connection broke without a last report, epoch milliseconds by the store's clock; else None.
        unfitting: jobs that it gets but cannot continue, since their recorded steps do not fit its code.
        queueless: jobs that it gets but that wait, since they enqueue others in a queue that does not exist.
        cannot_start: whether its latest process could not start, as after a reload of code that cannot be loaded.
    """

    id: str
    host: str
    pid: int | None = None
    version: str | None = None
    python: str | None = None
    started_ms: int | None = None
    is_draining: bool = False
    processes: Sequence[WorkerProcess] = ()
    reported_ms: int | None = None
    unknown: Sequence[UnknownJobs] = ()
    loads: Sequence[QueueLoad] = ()
    sent_ms: int | None = None
    classes: Sequence[JobClass] = ()
    lost_ms: int | None = None
    unfitting: Sequence[UnknownJobs] = ()
    queueless: Sequence[UnknownJobs] = ()
    cannot_start: bool = False

    @property
    def clock_ahead_ms(self) -> int | None:
        """How far the worker's clock is ahead of the store's, less the time the report took; None if unknown."""
        if self.sent_ms is None or self.reported_ms is None:
            return None
        return self.sent_ms - self.reported_ms

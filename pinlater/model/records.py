"""What goes into the client's calls and what comes out of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pinlater.errors import BodyInvalid
from pinlater.model.body_metadata import Progress, read_progress
from pinlater.model.policy import Policy, read_policy
from pinlater.model.state import JobState
from pinlater.model.status import FailedAttempt, parse_status


class NewJob(NamedTuple):
    """A job to enqueue.

    Attributes:
        body: any bytes.
        priority: 1 is served first.
        run_after_ms: epoch milliseconds before which it does not run; None is now.
        attempts: attempts in all, the first included.
        status: free text to begin the job's custom status with.
        unique: while a job of the queue with the same text is PENDING or IN_PROGRESS, nothing is stored.
    """

    body: bytes
    priority: int = 1
    run_after_ms: int | None = None
    attempts: int = 2
    status: str = ""
    unique: str | None = None


class ClaimedJob(NamedTuple):
    """A job handed out by a dequeue.

    What a server of the original does not tell is None.

    Attributes:
        descriptor: address of the job.
        body: its bytes.
        attempts_allowed: attempts in all.
        attempts_remaining: attempts left, this one included.
        claim: token to send back with acks and checkpoints.
        created_at_ms: when it was enqueued, epoch milliseconds.
        run_after_ms: when it became due, epoch milliseconds.
    """

    descriptor: str
    body: bytes
    attempts_allowed: int | None = None
    attempts_remaining: int | None = None
    claim: str | None = None
    created_at_ms: int | None = None
    run_after_ms: int | None = None


class Ack(NamedTuple):
    """How one job ended.

    Attributes:
        descriptor: address of the job.
        claim: its claim; given, the ack only counts if the job is still claimed so.
        status: text to append to the job's custom status.
        retry_delay: seconds until the next attempt of a failed job.
        final: a failed job is given up now, whatever attempts remain.
    """

    descriptor: str
    claim: str | None = None
    status: str = ""
    retry_delay: float = 0.0
    final: bool = False


class Acks(NamedTuple):
    """Acks that ride on a dequeue.

    Attributes:
        succeeded: jobs that are done.
        failed: jobs whose attempt failed.
        queue: queue of these jobs; None means the dequeue's.
    """

    succeeded: Sequence[Ack] = ()
    failed: Sequence[Ack] = ()
    queue: str | None = None


class Checkpoint(NamedTuple):
    """What to save of a claimed job; None leaves a thing as it is.

    Attributes:
        descriptor: address of the job.
        claim: its claim; without, the job must have been claimed by the same source.
        body: new body.
        move_to_pending: give the job back, no attempt spent.
        run_after_ms: epoch milliseconds before which it does not run (again).
        attempts: attempts allowed and remaining from now on.
        status: text to prepend to the job's custom status.
    """

    descriptor: str
    claim: str | None = None
    body: bytes | None = None
    move_to_pending: bool = False
    run_after_ms: int | None = None
    attempts: int | None = None
    status: str | None = None


class JobInfo(NamedTuple):
    """What the server knows of a job; times are epoch milliseconds.

    Attributes:
        descriptor: address of the job.
        state: where it stands.
        attempts_allowed: attempts in all.
        attempts_remaining: attempts left.
        status: custom status.
        created_at_ms: when it was enqueued.
        run_after_ms: when it became or becomes due.
        updated_at_ms: when it last changed.
        claim: its claim, once it was handed out.
        body: its bytes, where asked for.
        unique: its unique key, as long as it is not finished.
    """

    descriptor: str
    state: JobState
    attempts_allowed: int
    attempts_remaining: int
    status: str = ""
    created_at_ms: int = 0
    run_after_ms: int | None = None
    updated_at_ms: int | None = None
    claim: str | None = None
    body: bytes | None = None
    unique: str | None = None

    @property
    def progress(self) -> Progress | None:
        """How far the job said that it is; None if it said nothing, is done, or the body was not asked for."""
        return None if self.state is JobState.SUCCEEDED else read_progress(self.body)

    @property
    def failed_attempts(self) -> list[FailedAttempt]:
        """The attempts that failed, the oldest first, as far as our workers have written them into the status."""
        return parse_status(self.status)[1]

    @property
    def remark(self) -> str:
        """What the status says beside that: the text of the enqueue, or all that others have written."""
        return parse_status(self.status)[0]

    @property
    def policy(self) -> Policy | None:
        """What its enqueue said about its attempts; None if it said nothing, or the body was not asked for."""
        try:
            return None if self.body is None else read_policy(self.body)
        except BodyInvalid:
            return None


class QueueSettings(NamedTuple):
    """What holds a queue's jobs back.

    Attributes:
        is_paused: nothing is handed out.
        jobs_per_second: most jobs handed out a second, by all servers together; None: no limit.
        max_running: most jobs claimed at once; None: no limit.
        is_from_file: the server's file of rate limits names the queue; what it says of the first two wins.
    """

    is_paused: bool = False
    jobs_per_second: float | None = None
    max_running: int | None = None
    is_from_file: bool = False


SILENT_SECONDS = 12.0
"""Workers report every 5 s; one that has missed two of them says nothing any more."""


class RunningJob(NamedTuple):
    """A job that a worker says it runs.

    Attributes:
        descriptor: address of the job.
        since_ms: when this run began, epoch milliseconds by the worker's clock.
    """

    descriptor: str
    since_ms: int


class WorkerProcess(NamedTuple):
    """A job process, as its worker tells of it; what it does not tell is None.

    Attributes:
        pid: its process id.
        pool: name of its pool.
        queues: that it takes jobs from.
        started_ms: when it started, epoch milliseconds by the worker's clock.
        memory_bytes: its resident memory.
        slots: how many jobs it can run at the same time.
        ended: how many jobs have ended in it, whatever their outcome.
        jobs: those that it runs.
    """

    pid: int
    pool: str | None = None
    queues: Sequence[str] = ()
    started_ms: int | None = None
    memory_bytes: int | None = None
    slots: int | None = None
    ended: int | None = None
    jobs: Sequence[RunningJob] = ()


class UnknownJobs(NamedTuple):
    """Jobs that a worker has given back within the last minutes, since no class of its own reads them.

    Attributes:
        queue: where they are.
        name: of their class, as their bodies say; ``(unreadable)`` if they name none.
        returned: how often the worker has given one back; the same job comes again and again.
        last_ms: when it did so last, epoch milliseconds by the worker's clock.
    """

    queue: str
    name: str
    returned: int | None = None
    last_ms: int | None = None


class WorkerReport(NamedTuple):
    """What a worker, one supervisor with its job processes, tells of itself; what it does not tell is None.

    Attributes:
        id: tells it from all others, also from those before it on the same host.
        host: where it runs.
        pid: process id of the supervisor.
        version: of PinLater.
        python: version of Python.
        started_ms: when it started, epoch milliseconds by its own clock.
        is_draining: it takes no more jobs, and ends when those that run have ended.
        processes: its job processes.
        reported_ms: when the report came, epoch milliseconds by the store's clock; None in one that is to be sent.
        unknown: jobs that it gets and does not know.
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


class Page(NamedTuple):
    """One answer to a scan.

    Attributes:
        jobs: some of the jobs.
        continuation: to be given to the next scan; None when there are no more.
    """

    jobs: list[JobInfo]
    continuation: str | None

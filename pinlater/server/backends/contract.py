"""What a store has to do: one verb per Thrift verb, in batches, written as state before -> state after.

The rules of the calls (validation, limits, defaults, rate limits) are the service's, above; a backend may
rely on them. Every verb that names a queue raises ``QueueNotFound`` when there is none. All times are
milliseconds since the epoch by the store's own clock. All verbs are atomic: done whole or not at all. Whatever a verb
returns is committed.

A verb that takes ``once`` keeps its result under that key, in the transaction of the change. The same call with the
same key again, also on another server and at the same time, returns that result and changes nothing; one with a limit
does what the first left undone, and returns how many both have changed. Without a key it is not safe to repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from pinlater.descriptor import JobDescriptor

MAX_STATUS_CHARACTERS = 5000
"""Custom status is cut to this, on every store."""

MAX_QUEUE_NAME_CHARACTERS = 58
"""Longest queue name that every store can keep (MySQL: ``plq_<shard>_<name>`` has to fit into 64)."""

MAX_ANSWER_BYTES = 16_000_000
"""What a dequeue hands out at most, unless told otherwise, so that its answer fits into a frame."""

MAX_UNIQUE_KEY_CHARACTERS = 200
"""Longest unique key that every store can index."""

JOB_OVERHEAD_BYTES = 300
"""Of a job in a dequeue's answer, beside its body: descriptor twice, claim, numbers."""

IDEMPOTENCY_KEY_BYTES = 16
"""Length of what calls are known by; those that begin with the time stand side by side in a store."""

MAX_WORKER_ID_CHARACTERS = 200
"""Longest id of a worker that every store can index."""

MAX_REPORTS = 10_000
"""Reports of so many workers are read at most."""


class LookPauses(NamedTuple):
    """Seconds between two looks at a queue that somebody waits for: while jobs come, and when none has for long."""

    shortest: float
    longest: float


LOOK_OFTEN = LookPauses(0.02, 1.5)
"""At stores that tell nobody of new jobs."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store does beyond, or short of, the common contract.

    Attributes:
        name: of the store, for people.
        is_serial: claims see every enqueue that was submitted before them, so that a waiting dequeue can be
            served in the transaction that stores the job; nobody else writes to the store.
        look_pauses: how often to look for jobs though nothing was heard of any.
    """

    name: str
    is_serial: bool
    look_pauses: LookPauses


class CommitStats(NamedTuple):
    """What became of one transaction.

    Attributes:
        requests: that it carried.
        seconds: how long it took.
        is_failed: it was not committed, or nobody knows whether it was. Other transactions were not the reason.
        claims_undone: jobs that had been claimed for an answer that was never given, and are pending again.
    """

    requests: int
    seconds: float
    is_failed: bool = False
    claims_undone: int = 0


class NewJob(NamedTuple):
    """A job to be stored as PENDING. ``run_after_ms`` None means now; for ``unique_key`` see ``enqueue_jobs``."""

    body: bytes
    priority: int
    run_after_ms: int | None
    attempts: int
    status: str
    unique_key: str | None = None


class IdempotencyKey(NamedTuple):
    """What a call is known by when it is sent again.

    Attributes:
        value: ``IDEMPOTENCY_KEY_BYTES`` bytes that no other call has.
        keep_ms: how long its result is kept.
        is_repeat: the call was sent before, so it may have been carried out, on any shard.
    """

    value: bytes
    keep_ms: int
    is_repeat: bool = False


class QueueSettings(NamedTuple):
    """What holds a queue's jobs back. ``jobs_per_second`` is of all servers together, ``max_running`` in the store."""

    is_paused: bool = False
    jobs_per_second: float | None = None
    max_running: int | None = None

    def changed(self, change: QueueChange) -> QueueSettings:
        """Return them with a change."""
        return QueueSettings(
            self.is_paused if change.is_paused is None else change.is_paused,
            _limit(self.jobs_per_second, change.jobs_per_second),
            _limit(self.max_running, change.max_running),
        )


class QueueChange(NamedTuple):
    """A change of queue settings: None leaves a thing as it is, a limit of 0 takes it away."""

    is_paused: bool | None = None
    jobs_per_second: float | None = None
    max_running: int | None = None


_Number = TypeVar("_Number", float, int)


def _limit(present: _Number | None, wanted: _Number | None) -> _Number | None:
    return present if wanted is None else wanted or None


class Claim(NamedTuple):
    """How jobs are claimed.

    Attributes:
        descriptor: the claim's token.
        lease_ms: how long it lasts without a sign of life.
        coverage: share of the shards that are asked, taken at random; rounded half up.
        held: jobs that the shard has handed out under it already, if the same dequeue asks it once more. Should that
            answer get lost, they are not given back with the others.
    """

    descriptor: str
    lease_ms: int
    coverage: float = 1.0
    held: Sequence[ClaimedJob] = ()


def covered(coverage: float, shards: int) -> int:
    """Return how many of the shards a dequeue asks."""
    return int(coverage * shards + 0.5)


class ClaimedJob(NamedTuple):
    """A job that was handed out (or, in a dry run, would be)."""

    descriptor: str
    body: bytes
    attempts_allowed: int
    attempts_remaining: int
    created_at_ms: int
    run_after_ms: int


class Dequeued(NamedTuple):
    """What a dequeue claimed.

    Attributes:
        jobs: in the order (priority, run_after, id).
        next_due_ms: when the next job falls due, if that was asked for and no more are due now.
        has_more: whether more may be due now: the limit was reached, or the answer is full.
        is_held: whether more may be due now, but as many are claimed as may be at once.
    """

    jobs: list[ClaimedJob]
    next_due_ms: int | None
    has_more: bool
    is_held: bool = False


class Ack(NamedTuple):
    """The end of one attempt. ``claim`` None: matched by state alone, as the original does."""

    job: JobDescriptor
    claim: str | None
    status: str
    retry_delay_ms: int
    is_final: bool


class Checkpoint(NamedTuple):
    """A sign of life of one claimed job, with what it wants changed.

    Matched by ``claim`` when given, otherwise by ``source``, the source part of the present claim.
    ``run_after_ms`` None leaves a job its place in the queue, if there is a claim; without one it means now, as in the
    original.
    """

    job: JobDescriptor
    claim: str | None
    source: str
    body: bytes | None
    move_to_pending: bool
    run_after_ms: int | None
    attempts: int | None
    status: str

    @property
    def is_renewal(self) -> bool:
        """Whether it only says that its job is alive: a store may do all of those with one statement."""
        return (
            self.body is None
            and not self.move_to_pending
            and self.run_after_ms is None
            and self.attempts is None
            and not self.status
        )

    def new_run_after_ms(self, now_ms: int) -> int | None:
        """Return what the job's moment becomes; None: it stays as it is."""
        return now_ms if self.run_after_ms is None and self.claim is None else self.run_after_ms

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be done twice: a status would stand there twice, a job be taken from its next holder."""
        return not self.status and (self.claim is not None or not self.move_to_pending)


class Settled(NamedTuple):
    """How many of the given acks or checkpoints changed a job, and when the next retry falls due.

    ``lost``: jobs of checkpoints which do not give back, that are not held as these say, and so were left alone.
    """

    changed: int
    stale: int
    due_ms: int | None = None
    lost: tuple[JobDescriptor, ...] = ()


class JobRecord(NamedTuple):
    """All that is known of a job."""

    descriptor: str
    state: int
    attempts_allowed: int
    attempts_remaining: int
    status: str
    created_at_ms: int
    run_after_ms: int
    updated_at_ms: int
    claim: str | None
    body: bytes | None
    unique_key: str | None = None


class JobFilter(NamedTuple):
    """Which jobs of a queue: one state, one or all priorities, due or future ones (None: both), a body pattern."""

    state: int
    priority: int | None = None
    is_future: bool | None = None
    body_regex: str | None = None


class Position(NamedTuple):
    """Where a scan goes on: behind this job. ``shard`` is empty where a store has but one."""

    run_after_ms: int
    local_id: int
    shard: str = ""


class Page(NamedTuple):
    """Part of a scan; ``position`` resumes it, None at the end."""

    jobs: list[JobRecord]
    position: Position | None


class Expired(NamedTuple):
    """How many expired claims of one queue went which way."""

    queue: str
    retried: int
    failed: int


class Collected(NamedTuple):
    """How many finished jobs of one queue were removed."""

    queue: str
    succeeded: int
    failed: int


class KeptReport(NamedTuple):
    """What a worker has reported of itself: bytes that mean nothing to a store."""

    worker_id: str
    report: bytes
    reported_at_ms: int


class Backend(Protocol):
    """A store of jobs."""

    capabilities: Capabilities

    @property
    def shards(self) -> int:
        """How many parts the jobs are spread over; 1 for a store that has none."""

    async def create_queue(self, queue: str) -> None:
        """No queue -> an empty queue; a queue -> itself."""

    async def delete_queue(self, queue: str) -> None:
        """A queue with all its jobs -> none; none -> none."""

    async def queue_names(self) -> set[str]:
        """Return the names of all queues."""

    async def queue_settings(self) -> dict[str, QueueSettings]:
        """Return the settings of all queues."""

    async def change_queue_settings(self, queue: str, change: QueueChange) -> None:
        """Change settings. They stay until the queue is deleted."""

    async def enqueue_jobs(
        self, queue: str, jobs: Sequence[NewJob], *, once: IdempotencyKey | None = None
    ) -> list[str]:
        """Nothing -> PENDING. Return descriptors in the order of ``jobs``.

        While a job of the queue with the same ``unique_key`` is PENDING or IN_PROGRESS, be it stored by this very call,
        a job is not stored, and has the descriptor of that one. A job keeps its key until it is SUCCEEDED or FAILED,
        then it is forgotten: retried by hand, it is a job without a key. Keys are 1 to ``MAX_UNIQUE_KEY_CHARACTERS``
        characters without NUL, and compared character by character.
        """

    async def import_jobs(
        self, queue: str, jobs: Sequence[JobRecord], *, once: IdempotencyKey | None = None
    ) -> list[str]:
        """Nothing -> the state that a job had in another store, with its history; IN_PROGRESS -> PENDING.

        The descriptors' priorities are kept, and the order (run_after, as given). Unique keys are as in
        ``enqueue_jobs``.
        """

    async def dequeue_jobs(
        self,
        queue: str,
        limit: int,
        claim: Claim,
        *,
        max_bytes: int = MAX_ANSWER_BYTES,
        want_next_due: bool = False,
        max_running: int | None = None,
    ) -> Dequeued:
        """PENDING and due -> IN_PROGRESS under ``claim``, up to ``limit`` jobs and ``max_bytes``, but at least one.

        What is returned is committed. If nobody knows whether it is, that is an error, and the store sees to it that
        the jobs are PENDING again, no attempt spent, as soon as it can.
        Never more than bring the queue's IN_PROGRESS jobs to ``max_running``, whoever claimed them.
        """

    async def peek_jobs(self, queue: str, limit: int, *, max_bytes: int = MAX_ANSWER_BYTES) -> list[ClaimedJob]:
        """Return what a dequeue would hand out; change nothing."""

    async def ack_dequeued_jobs(self, queue: str, succeeded: Sequence[Ack], failed: Sequence[Ack]) -> Settled:
        """IN_PROGRESS -> SUCCEEDED; or PENDING after the delay, one attempt less; or FAILED at the last.

        Safe to repeat, but for failures without a claim: those would end the attempt of the next holder.
        """

    async def checkpoint_jobs(self, queue: str, checkpoints: Sequence[Checkpoint]) -> Settled:
        """IN_PROGRESS -> IN_PROGRESS with a new lease, or PENDING, no attempt spent.

        Safe to repeat, where each of them ``is_repeatable``.
        """

    async def release_claims(self, queue: str, source: str) -> int:
        """IN_PROGRESS under any claim of ``source`` -> PENDING, no attempt spent. Return how many."""

    async def lookup_jobs(self, jobs: Sequence[JobDescriptor], *, include_body: bool) -> list[JobRecord | None]:
        """Return the records in the order of ``jobs``; None for those not there."""

    async def count_jobs(self, queue: str, which: JobFilter) -> int:
        """Return how many jobs match, counting up to a bound per priority."""

    async def oldest_due_ms(self, queue: str) -> int | None:
        """Return since when the job is due that has been so for longest, whatever its priority; None if none is."""

    async def first_due(self, queues: Sequence[str]) -> dict[str, int | None]:
        """Return when the first PENDING job of each queue falls due, or did; None if none is PENDING.

        Queues that are not there are left out. However many queues there are, it is one look at the store.
        """

    async def scan_jobs(self, queue: str, which: JobFilter, limit: int, position: Position | None) -> Page:
        """Return the next jobs that match, latest run_after first."""

    async def retry_failed_jobs(
        self,
        queue: str,
        priority: int,
        attempts: int,
        run_after_ms: int | None,
        limit: int,
        *,
        once: IdempotencyKey | None = None,
    ) -> int:
        """FAILED -> PENDING with ``attempts`` remaining, the oldest first. Return how many.

        In steps, between which others have their turn, and each job for one call only: less than the limit means that
        there are no more.
        """

    async def delete_jobs(self, queue: str, which: JobFilter, limit: int, *, once: IdempotencyKey | None = None) -> int:
        """Matching jobs -> gone. Return how many; see ``retry_failed_jobs``."""

    async def retry_these_jobs(
        self,
        queue: str,
        jobs: Sequence[JobDescriptor],
        attempts: int,
        run_after_ms: int | None,
        *,
        once: IdempotencyKey | None = None,
    ) -> int:
        """Those of ``jobs`` that are FAILED -> PENDING with ``attempts`` remaining. Return how many."""

    async def delete_these_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], state: int, *, once: IdempotencyKey | None = None
    ) -> int:
        """Those of ``jobs`` that are in ``state`` -> gone. Return how many."""

    async def reap_expired(self, limit: int, *, server_age_ms: int, quiet_ms: int) -> list[Expired]:
        """IN_PROGRESS with an expired claim -> PENDING, one attempt less, or FAILED at the last.

        While the server is younger than ``quiet_ms``, claims whose lease is longer than its age are spared:
        their holders had no time yet to renew them. What expires after the call was made is spared, too, however late
        it is carried out: this server may have stood still meanwhile.
        """

    async def collect_finished(self, succeeded_ttl_ms: int, failed_ttl_ms: int, limit: int) -> list[Collected]:
        """SUCCEEDED and FAILED since longer than the given times -> gone, up to ``limit`` of each."""

    async def forget_results(self, limit: int) -> int:
        """Results of calls with an idempotency key that were kept long enough -> gone, up to ``limit``.

        Return how many; 0 where the store forgets them by itself.
        """

    async def keep_report(self, worker_id: str, report: bytes, keep_ms: int) -> None:
        """Any report of a worker -> this one, for ``keep_ms``; 0: none. Some that have expired are removed on the way.

        Ids are 1 to ``MAX_WORKER_ID_CHARACTERS`` characters without NUL, and compared character by character. Safe to
        repeat. A report is lost when its shard is; there will be another one.
        """

    async def reports(self, max_bytes: int = MAX_ANSWER_BYTES) -> list[KeptReport]:
        """Return the reports that have not expired, one of a worker; those first that expire last.

        No more than ``MAX_REPORTS``, nor than have ``max_bytes`` in all.
        """

    async def close(self) -> None:
        """Finish what was submitted and let go of the store."""

"""Records of the store contract: what its verbs take and return. All times are milliseconds since the epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from pinlater.model.descriptor import JobDescriptor

MAX_STATUS_CHARACTERS = 5000
"""Custom status is cut to this, on every store."""

MAX_QUEUE_NAME_CHARACTERS = 58
"""Longest queue name that every store can keep (MySQL: ``plq_<shard>_<name>`` has to fit into 64)."""

MAX_ANSWER_BYTES = 16_000_000
"""Most bytes of jobs that a dequeue hands out by default, so that its answer fits into a frame."""

MAX_UNIQUE_KEY_CHARACTERS = 200
"""Longest unique key that every store can index."""

JOB_OVERHEAD_BYTES = 300
"""Of a job in a dequeue's answer, beside its body: descriptor twice, claim, numbers."""

IDEMPOTENCY_KEY_BYTES = 16
"""Length of an idempotency key. Keys that begin with the time are appended to an index, which is cheap."""

MAX_WORKER_ID_CHARACTERS = 200
"""Longest id of a worker that every store can index."""

MAX_REPORTS = 10_000
"""Reports of so many workers are read at most."""


class CommitStats(NamedTuple):
    """What became of one transaction.

    Attributes:
        requests: that it carried.
        seconds: how long it took.
        is_failed: it was not committed, or that is unknown. Conflicts with other transactions do not count.
        claims_undone: claimed jobs that were made pending again, because the dequeue could not be answered.
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
    """The key by which a store recognises a call that is sent again.

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
        held: jobs that the shard has handed out under this claim already, when the same dequeue asks it again. If the
            second answer is lost, these are not given back.
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
    ``failed``: jobs of acks that are FAILED now, for good.
    """

    changed: int
    stale: int
    due_ms: int | None = None
    lost: tuple[JobDescriptor, ...] = ()
    failed: int = 0


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


class StoreSize(NamedTuple):
    """How much a shard takes, in bytes, and how much is left for it; None if that is not known."""

    used_bytes: int
    free_bytes: int | None = None


RETRIES_LOOKED_AT = 10_000
"""See ``JobFilter``."""


class JobFilter(NamedTuple):
    """Which jobs of a queue: one state, one or all priorities, due or future ones (None: both), a body pattern.

    ``is_retry``, for counts of PENDING jobs alone: those that were tried before, of the first ``RETRIES_LOOKED_AT`` of
    each priority, in the order of ``run_after``. No index knows them, so each job has to be looked at.
    """

    state: int
    priority: int | None = None
    is_future: bool | None = None
    body_regex: str | None = None
    is_retry: bool = False


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

"""Records of the store contract: what its verbs take and return. All times are milliseconds since the epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pinlater.model.attempts import DequeuedJob
from pinlater.model.descriptor import JobDescriptor

MAX_STATUS_CHARACTERS = 5000
"""Custom status is cut to this, on every store; to 1600 of a job that is given back with all attempts."""

MAX_QUEUE_NAME_CHARACTERS = 58
"""Longest queue name that every store can keep (MySQL: ``plq_<shard>_<name>`` has to fit into 64)."""

MAX_ANSWER_BYTES = 16_000_000
"""Most bytes of jobs that a dequeue hands out by default, so that its answer fits into a frame."""

MAX_UNIQUE_KEY_CHARACTERS = 200
"""Longest unique key that every store can index."""

MAX_UNIQUE_PERIOD_MS = 366 * 86_400_000
"""Longest time that a unique key stays taken whatever becomes of its job."""

JOB_OVERHEAD_BYTES = 300
"""Of a job in a dequeue's answer, beside its body: descriptor twice, claim, numbers."""

MESSAGE_OVERHEAD_BYTES = 50
"""Of a message in an answer, beside its id and payload: number, kind, heads of fields."""

IDEMPOTENCY_KEY_BYTES = 16
"""Length of an idempotency key. Keys that begin with the time are appended to an index, which is cheap."""

MAX_WORKER_ID_CHARACTERS = 200
"""Longest id of a worker that every store can index."""

MAX_REPORTS = 10_000
"""Reports of so many workers are read at most."""

WHOLE_BODY = 2**31 - 1
"""More bytes than any body has."""


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


Once = IdempotencyKey | None
"""The key of a call; None: it has none."""


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
    held: Sequence[DequeuedJob] = ()


def covered(coverage: float, shards: int) -> int:
    """Return how many of the shards a dequeue asks."""
    return int(coverage * shards + 0.5)


class Dequeued(NamedTuple):
    """What a dequeue claimed.

    Attributes:
        jobs: in the order (priority, run_after, id); behind them those that were let through by their claims.
        next_due_ms: when the next job falls due, if that was asked for and no more are due now.
        has_more: whether more may be due now than were claimed.
        is_held: whether more may be due now, but as many are claimed as may be at once.
        lets_through: whether the claims have let other jobs through, by their keys, which nobody else knows of.
    """

    jobs: list[DequeuedJob]
    next_due_ms: int | None
    has_more: bool
    is_held: bool = False
    lets_through: bool = False


class Settled(NamedTuple):
    """How many of the given acks or checkpoints changed a job, and when the next retry falls due.

    ``lost``: jobs of checkpoints which do not give back, that are not held as these say, and so were left alone.
    ``failed``: jobs of acks that are FAILED now, for good.
    ``let_through``: other jobs that waited for a key, and may be claimed now, or when they are due.
    ``cancelled``: jobs of checkpoints that are held as these say, and asked to stop. One that was given back is FAILED
    now, and not among them.
    """

    changed: int
    stale: int
    due_ms: int | None = None
    lost: tuple[JobDescriptor, ...] = ()
    failed: int = 0
    let_through: int = 0
    cancelled: tuple[JobDescriptor, ...] = ()


class Cancelled(NamedTuple):
    """Which of the given jobs were cancelled, by this call or an earlier one; the others had finished, or are gone.

    ``ended``: they are FAILED, and marked as cancelled.
    ``asked``: they are IN_PROGRESS, and asked to stop.
    ``let_through``: as in ``Settled``.
    """

    ended: tuple[JobDescriptor, ...]
    asked: tuple[JobDescriptor, ...]
    let_through: int = 0


class StoreSize(NamedTuple):
    """How much a shard takes, in bytes, and how much is left for it; None if that is not known."""

    used_bytes: int
    free_bytes: int | None = None


RETRYING_COUNTED = 10
"""Where PENDING jobs are counted without those that are retrying, so many times more of these are counted at most."""

ALL_PRIORITIES = 0
"""What stands for the priority where the jobs of all of them are in one order."""


class JobFilter(NamedTuple):
    """Which jobs of a queue: one state, one or all priorities, due or future ones (None: both), a body pattern.

    ``waits_for_key``, for counts of PENDING jobs alone: those that wait for others of their key; they are also future
    ones.
    ``is_retrying``, with PENDING alone: those that are in a failure group, so their last attempt has failed.
    ``skips_retrying``, for counts of PENDING jobs alone: those that are not in a failure group. The count is right
    unless more than ``RETRYING_COUNTED`` times as many jobs are retrying as a count tells.
    ``failure_group``, with PENDING and FAILED alone, and all priorities: those that are in this group.
    ``key``, for scans of PENDING and IN_PROGRESS jobs of all priorities: those that have this key, shared or unique.
    """

    state: int
    priority: int | None = None
    is_future: bool | None = None
    body_regex: str | None = None
    waits_for_key: bool = False
    is_retrying: bool = False
    failure_group: int | None = None
    key: str | None = None
    skips_retrying: bool = False


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

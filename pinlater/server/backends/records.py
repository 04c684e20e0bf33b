"""Records of the store contract: what its verbs take and return. All times are milliseconds since the epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pinlater.model.attempts import DequeuedJob
from pinlater.model.descriptor import JobDescriptor

MAX_STATUS_CHARACTERS = 5000
"""Every store cuts custom statuses to this; to 1600 when a job is given back with all its attempts."""

MAX_QUEUE_NAME_CHARACTERS = 58
"""Longest queue name that every store can keep (MySQL: ``plq_<shard>_<name>`` has to fit into 64)."""

MAX_ANSWER_BYTES = 16_000_000
"""Default for the most bytes of jobs that a dequeue hands out, so that its answer fits into a frame."""

MAX_UNIQUE_KEY_CHARACTERS = 200
"""Longest unique key that every store can index."""

MAX_UNIQUE_PERIOD_MS = 366 * 86_400_000
"""Longest period for which a unique key can stay taken whatever becomes of its job."""

JOB_OVERHEAD_BYTES = 300
"""What a job takes in a dequeue's answer besides its body: its descriptor twice, the claim, numbers."""

MESSAGE_OVERHEAD_BYTES = 50
"""What a message takes in an answer besides its id and payload: number, kind, field headers."""

IDEMPOTENCY_KEY_BYTES = 16
"""Length of an idempotency key. Keys that begin with the time always go to the end of an index, which is cheap."""

MAX_WORKER_ID_CHARACTERS = 200
"""Longest worker id that every store can index."""

MAX_REPORTS = 10_000
"""Most workers whose reports are read."""

WHOLE_BODY = 2**31 - 1
"""More bytes than any body has."""


class CommitStats(NamedTuple):
    """What became of one transaction.

    Attributes:
        requests: how many requests it carried.
        seconds: how long it took.
        is_failed: whether it was not committed, or may not have been. Conflicts with other transactions do not count.
        claims_undone: how many claimed jobs were made pending again, because the dequeue could not be answered.
    """

    requests: int
    seconds: float
    is_failed: bool = False
    claims_undone: int = 0


class IdempotencyKey(NamedTuple):
    """The key by which a store recognises a call that is sent again.

    Attributes:
        value: ``IDEMPOTENCY_KEY_BYTES`` bytes that no other call has.
        keep_ms: how long to keep the call's result.
        is_repeat: whether the call was sent before, so that it may have been carried out already, on any shard.
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
        lease_ms: how long the claim lasts unless it is renewed.
        coverage: share of the shards to ask, chosen at random; their number is rounded half up.
        held: jobs that the shard has already handed out under this claim, when the same dequeue asks it again. If the
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
        jobs: in the order (priority, run_after, id), followed by those that their claims have let through.
        next_due_ms: when the next job falls due, if that was asked for and no more are due now.
        has_more: whether more may be due now than were claimed.
        is_held: whether more may be due now, but the queue's limit of running jobs is reached.
        lets_through: whether the claims have let other jobs of the same keys through; nobody else knows of these yet.
    """

    jobs: list[DequeuedJob]
    next_due_ms: int | None
    has_more: bool
    is_held: bool = False
    lets_through: bool = False


class Settled(NamedTuple):
    """How many of the given acks or checkpoints changed a job, and when the next retry falls due.

    ``lost``: jobs that are not held as their checkpoints say, and so were left alone; without those to be given back.
    ``failed``: how many jobs of acks are now FAILED for good.
    ``let_through``: how many other jobs waited for a key and may now be claimed, at once or when they fall due.
    ``cancelled``: jobs that are held as their checkpoints say, and are asked to stop. Jobs that were given back are not
    held any more, so they are not among them.
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

    ``ended``: jobs that are FAILED and marked as cancelled.
    ``asked``: jobs that are asked to stop: IN_PROGRESS, or PENDING with something to undo.
    ``let_through``: as in ``Settled``.
    ``parents``: those of both that may have children to cancel.
    ``newly_ended``: how many of ``ended`` this call has cancelled.
    """

    ended: tuple[JobDescriptor, ...]
    asked: tuple[JobDescriptor, ...]
    let_through: int = 0
    parents: tuple[JobDescriptor, ...] = ()
    newly_ended: int = 0


class StoreSize(NamedTuple):
    """How many bytes a shard takes, and how many are left for it; None if that is not known."""

    used_bytes: int
    free_bytes: int | None = None


RETRYING_COUNTED = 10
"""To count the PENDING jobs that are not retrying, stores count the retrying ones up to this many times the cap."""

ALL_PRIORITIES = 0
"""Stands for the priority where the jobs of all priorities are in one order."""


class JobFilter(NamedTuple):
    """Which jobs of a queue: one state, one or all priorities, due or future ones (None: both), a body pattern.

    ``waits_for_key``, only for counts of PENDING jobs: those that wait for others of their key, which are also future
    jobs.
    ``is_retrying``, only with PENDING: those in a failure group, so their last attempt failed.
    ``skips_retrying``, only for counts of PENDING jobs: those not in a failure group. The count is exact unless more
    jobs are retrying than ``RETRYING_COUNTED`` times its cap.
    ``failure_group``, only with PENDING or FAILED, and all priorities: those in this group.
    ``key``, for scans of PENDING and IN_PROGRESS jobs of all priorities: those with this key, shared or unique.
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
    """How many jobs of one queue were retried, and how many failed, because their claims had expired."""

    queue: str
    retried: int
    failed: int


class Collected(NamedTuple):
    """How many finished jobs of one queue were removed."""

    queue: str
    succeeded: int
    failed: int


class KeptReport(NamedTuple):
    """A worker's report about itself: bytes that mean nothing to a store."""

    worker_id: str
    report: bytes
    reported_at_ms: int

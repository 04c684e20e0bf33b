"""Enqueue a job and claim it at once for a waiting dequeue: nothing -> IN_PROGRESS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pinlater.model.attempts import DequeuedJob
from pinlater.server.backends.records import Dequeued
from pinlater.server.backends.sqlite.call_results import save_new
from pinlater.server.backends.sqlite.claim import SqliteClaimRequest, claim_jobs, first_pending
from pinlater.server.backends.sqlite.enqueue import EnqueueRequest, enqueue
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction

_INSERT_CLAIMED = QUERIES["insert_claimed_job"]


def enqueue_and_claim(transaction: SqliteTransaction, requests: Sequence[Any]) -> list[Any]:
    """Carry out one enqueue and one dequeue; a job that the dequeue would get anyway is stored as claimed.

    That takes one insertion instead of an insertion, a search, an update and a read of the body. The results are those
    of ``enqueue`` and ``claim_jobs``.
    """
    enqueuing, dequeue = requests
    if _may_be_claimed(enqueuing, dequeue):
        next_due = first_pending(transaction, dequeue)
        if next_due is None or next_due > transaction.now:  # otherwise, other jobs are due as well
            told = next_due if dequeue.want_next_due else None
            return _store_claimed(transaction, enqueuing, dequeue, told)
    return [*enqueue(transaction, [enqueuing]), *claim_jobs(transaction, [dequeue])]


def _may_be_claimed(enqueuing: EnqueueRequest, dequeue: SqliteClaimRequest) -> bool:
    """Return whether the dequeue takes any due job of the queue, and the only new job is not delayed."""
    return (
        enqueuing.queue_id == dequeue.queue_id
        and len(enqueuing.jobs) == 1
        and enqueuing.jobs[0].run_after_ms is None
        and dequeue.max_running is None
        and dequeue.limit > 0
    )


def _store_claimed(
    transaction: SqliteTransaction, enqueuing: EnqueueRequest, dequeue: SqliteClaimRequest, next_due: int | None
) -> list[Any]:
    _, [job], once = enqueuing
    local_id, now = transaction.take_ids(1), transaction.now
    if once is not None:
        saved_id = save_new(transaction, [(once, local_id)]).get(once.value, local_id)
        if saved_id != local_id:  # the call was carried out before, and nothing is due
            return [saved_id, Dequeued([], next_due, has_more=False)]
    body, priority, _, attempts, status, *_ = job
    expires = now + dequeue.lease_ms
    transaction.run(
        _INSERT_CLAIMED,
        (dequeue.queue_id, now, local_id, priority, attempts, status, body, dequeue.claim, expires, dequeue.lease_ms),
    )
    claimed = DequeuedJob(f"{dequeue.prefixes[priority - 1]}{local_id}", body, attempts, attempts, now, now)
    return [local_id, Dequeued([claimed], next_due, has_more=False)]

"""Claim: PENDING and due -> IN_PROGRESS, in the order (priority, run_after, id)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pinlater.model.attempts import DequeuedJob
from pinlater.server.backends.records import Dequeued
from pinlater.server.backends.sqlite.claimable import walk_claimable
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list

_CLAIM = QUERIES["claim_jobs"]
_CLAIMED = QUERIES["claimed_of_queue"]
_NEXT_DUE = QUERIES["next_due"]


class SqliteClaimRequest(NamedTuple):
    """One dequeue. ``prefixes`` are the heads of descriptors, of priority 1 first."""

    queue_id: int
    prefixes: Sequence[str]
    limit: int
    max_bytes: int
    claim: str
    lease_ms: int
    want_next_due: bool
    max_running: int | None


def claim_jobs(transaction: SqliteTransaction, requests: Sequence[SqliteClaimRequest]) -> list[Dequeued]:
    """Claim for each dequeue in turn."""
    return [_claim_one(transaction, request) for request in requests]


def _claim_one(transaction: SqliteTransaction, request: SqliteClaimRequest) -> Dequeued:
    now, (queue_id, prefixes, limit, max_bytes, claim_as, lease_ms, want_next_due, max_running) = (
        transaction.now,
        request,
    )
    jobs: list[DequeuedJob] = []
    if max_running is not None:
        free = max_running - int(transaction.rows(_CLAIMED, (queue_id,))[0][0])
        if free <= 0:
            return Dequeued(jobs, None, has_more=False, is_held=True)
        limit = min(limit, free)
    is_cut = False
    for prefix, found in walk_claimable(transaction.rows, queue_id, prefixes, now, limit=limit, max_bytes=max_bytes):
        transaction.run(_CLAIM, (now, claim_as, now + lease_ms, lease_ms, id_list(found.ids)))
        jobs += found.with_bodies(transaction.rows, prefix)
        is_cut = found.is_cut
    if is_cut or len(jobs) >= limit:
        is_held = limit < request.limit
        return Dequeued(jobs, None, has_more=not is_held, is_held=is_held)
    return Dequeued(jobs, _next_due(transaction, request) if want_next_due else None, has_more=False)


def _next_due(transaction: SqliteTransaction, request: SqliteClaimRequest) -> int | None:
    due = [
        row[0]
        for priority in range(1, len(request.prefixes) + 1)
        for row in transaction.rows(_NEXT_DUE, (request.queue_id, transaction.now, priority))
    ]
    return min(due, default=None)

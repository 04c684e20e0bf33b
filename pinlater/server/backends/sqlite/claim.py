"""Claim: PENDING and due -> IN_PROGRESS, in the order (priority, run_after, id).

Answered before its commit: should that be lost, the job is pending still, and is handed out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pinlater.server.backends.contract import ClaimedJob, Dequeued
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import Transaction

_CLAIM = QUERIES["claim_jobs"]
_NEXT_DUE = QUERIES["next_due"]


class ClaimRequest(NamedTuple):
    """One dequeue. ``prefixes`` are the heads of descriptors, of priority 1 first."""

    queue_id: int
    prefixes: Sequence[str]
    limit: int
    claim: str
    lease_ms: int
    want_next_due: bool


def claim(transaction: Transaction, requests: Sequence[ClaimRequest]) -> list[Dequeued]:
    """Claim for each dequeue in turn."""
    return [_claim_one(transaction, request) for request in requests]


def _claim_one(transaction: Transaction, request: ClaimRequest) -> Dequeued:
    now = transaction.now
    jobs: list[ClaimedJob] = []
    for priority, prefix in enumerate(request.prefixes, 1):
        wanted = request.limit - len(jobs)
        expires = now + request.lease_ms
        rows = transaction.rows(
            _CLAIM, (request.queue_id, now, priority, request.claim, expires, request.lease_ms, wanted)
        )
        jobs += in_order(prefix, rows)
        if len(jobs) >= request.limit:
            return Dequeued(jobs, None)
    return Dequeued(jobs, _next_due(transaction, request) if request.want_next_due else None)


def in_order(prefix: str, rows: list[Any]) -> list[ClaimedJob]:
    """Return rows of a claim as jobs, in the promised order."""
    rows.sort(key=_position)
    return [
        ClaimedJob(f"{prefix}{local_id}", body, allowed, remaining, created_at, run_after)
        for run_after, local_id, body, allowed, remaining, created_at in rows
    ]


def _position(row: Any) -> tuple[int, int]:
    return row[0], row[1]


def _next_due(transaction: Transaction, request: ClaimRequest) -> int | None:
    due = [
        row[0]
        for priority in range(1, len(request.prefixes) + 1)
        for row in transaction.rows(_NEXT_DUE, (request.queue_id, transaction.now, priority))
    ]
    return min(due, default=None)

"""Acks: IN_PROGRESS -> SUCCEEDED, PENDING or FAILED."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from pinlater.model.attempts import StoredAck
from pinlater.server.backends.records import Settled
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list

_SUCCEED_MANY = QUERIES["succeed_jobs"]
_SUCCEED_ONE = QUERIES["succeed_job"]
_END_ONE = QUERIES["end_job"]
_FAIL_ONE = QUERIES["fail_job"]
_LAST_MS = 2**63 - 1


class SqliteAckRequest(NamedTuple):
    """The acks of one call, all for one queue."""

    queue_id: int
    succeeded: Sequence[StoredAck]
    failed: Sequence[StoredAck]


def ack_jobs(transaction: SqliteTransaction, requests: Sequence[SqliteAckRequest]) -> list[Settled]:
    """Ack the jobs of each call; those that are not in progress, or under another claim, stay as they are."""
    return [_ack_call(transaction, request) for request in requests]


def _ack_call(transaction: SqliteTransaction, request: SqliteAckRequest) -> Settled:
    changed = _succeed(transaction, request.queue_id, request.succeeded)
    ended, retried = _fail(transaction, request.queue_id, request.failed)
    changed += ended + retried
    stale = len(request.succeeded) + len(request.failed) - changed
    due = min((_retry_at(transaction.now, ack.retry_delay_ms) for ack in request.failed), default=None)
    return Settled(changed, stale, due, failed=ended)


def _retry_at(now: int, delay_ms: int) -> int:
    """Return when a failed job runs again; a delay that overflows must not fail the other acks."""
    return min(now + max(delay_ms, 0), _LAST_MS)


def _succeed(transaction: SqliteTransaction, queue_id: int, acks: Sequence[StoredAck]) -> int:
    """Mark jobs SUCCEEDED; acks without a status text that share a claim go in one statement."""
    alike: defaultdict[tuple[str | None, int], list[int]] = defaultdict(list)
    apart: list[tuple[object, ...]] = []
    for (_, _, priority, local_id), claim, status, _, _ in acks:
        if status:
            apart.append((queue_id, transaction.now, local_id, claim, priority, status))
        else:
            alike[claim, priority].append(local_id)
    changed = sum(
        transaction.run(_SUCCEED_MANY, (queue_id, transaction.now, id_list(ids), claim, priority))
        for (claim, priority), ids in alike.items()
    )
    return changed + (transaction.run_many(_SUCCEED_ONE, apart) if apart else 0)


def _fail(transaction: SqliteTransaction, queue_id: int, acks: Sequence[StoredAck]) -> tuple[int, int]:
    """Fail attempts; return how many jobs are FAILED for good, and how many are retried."""
    if not acks:
        return 0, 0
    now = transaction.now
    rows = [
        (queue_id, now, local_id, claim, priority, status, _retry_at(now, delay), is_final)
        for (_, _, priority, local_id), claim, status, delay, is_final in acks
    ]
    again = [row[:-1] for row in rows if not row[-1]]
    retried = transaction.run_many(_FAIL_ONE, again) if again else 0
    if retried == len(rows):
        return 0, retried
    return transaction.run_many(_END_ONE, [(*row[:-2], row[-1]) for row in rows]), retried

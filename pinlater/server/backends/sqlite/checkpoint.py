"""Checkpoints: lease renewals, progress, and jobs given back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from pinlater.model.attempts import StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.claim_names import source_of
from pinlater.server.backends.records import Settled
from pinlater.server.backends.sqlite.keys import keys_of, let_next_through
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list

_HOLDER = QUERIES["claim_of_job"]
_CHECKPOINT = QUERIES["checkpoint_job"]
_RENEW = QUERIES["renew_jobs"]


class SqliteCheckpointRequest(NamedTuple):
    """The checkpoints of one call, all for one queue."""

    queue_id: int
    checkpoints: Sequence[StoredCheckpoint]


class ReleaseRequest(NamedTuple):
    """Gives back all that one source holds in a queue."""

    queue_id: int
    source: str


def checkpoint(transaction: SqliteTransaction, requests: Sequence[SqliteCheckpointRequest]) -> list[Settled]:
    """Apply each call's checkpoints to the jobs that its claims, or its source, hold."""
    return [_checkpoint_call(transaction, request) for request in requests]


def release(transaction: SqliteTransaction, requests: Sequence[ReleaseRequest]) -> list[int]:
    """Give back all claims of each source, no attempt spent; return how many."""
    return [_release_one(transaction, request) for request in requests]


def _checkpoint_call(transaction: SqliteTransaction, request: SqliteCheckpointRequest) -> Settled:
    renewals: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    changed = 0
    due: int | None = None
    for item in request.checkpoints:
        if item.claim is not None and item.is_renewal:
            renewals[item.claim, item.job.priority].append(item.job.local_id)
        elif _apply(transaction, request.queue_id, item):
            changed += 1
            if item.move_to_pending:
                run_after = transaction.now if item.run_after_ms is None else item.run_after_ms
                due = run_after if due is None else min(due, run_after)
    for (claim, priority), ids in renewals.items():
        changed += transaction.run(_RENEW, (request.queue_id, transaction.now, id_list(ids), claim, priority))
    stale = len(request.checkpoints) - changed
    lost = _lost(transaction, request) if stale else ()
    given_back = [item.job.local_id for item in request.checkpoints if item.move_to_pending]
    through = let_next_through(transaction, keys_of(transaction, request.queue_id, given_back)) if given_back else 0
    return Settled(changed, stale, due, lost, let_through=through)


def _lost(transaction: SqliteTransaction, request: SqliteCheckpointRequest) -> tuple[JobDescriptor, ...]:
    """Return the jobs that are not held as their checkpoints say, except those given back."""
    return tuple(
        item.job
        for item in request.checkpoints
        if not item.move_to_pending and not _is_holder(transaction, request.queue_id, item)
    )


def _apply(transaction: SqliteTransaction, queue_id: int, item: StoredCheckpoint) -> bool:
    if not _is_holder(transaction, queue_id, item):
        return False
    transaction.run(
        _CHECKPOINT,
        (
            queue_id,
            transaction.now,
            item.job.local_id,
            item.body,
            item.move_to_pending,
            item.new_run_after_ms(transaction.now),
            item.attempts,
            item.status,
        ),
    )
    return True


def _is_holder(transaction: SqliteTransaction, queue_id: int, item: StoredCheckpoint) -> bool:
    for (claim,) in transaction.rows(_HOLDER, (queue_id, item.job.local_id, item.job.priority)):
        return bool(claim == item.claim if item.claim is not None else source_of(claim) == item.source)
    return False


def _release_one(transaction: SqliteTransaction, request: ReleaseRequest) -> int:
    held = transaction.rows(QUERIES["claims_of_queue"], (request.queue_id,))
    ids = [local_id for local_id, claim in held if source_of(claim) == request.source]
    return transaction.run(QUERIES["release_jobs"], (request.queue_id, transaction.now, id_list(ids))) if ids else 0

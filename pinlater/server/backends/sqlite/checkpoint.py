"""Checkpoints: renew leases, save progress, give jobs back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from pinlater.model.attempts import StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.claim_names import source_of
from pinlater.server.backends.records import Settled
from pinlater.server.backends.sqlite.cancel import asked_of, report_ended
from pinlater.server.backends.sqlite.keys import keys_of, let_next_through
from pinlater.server.backends.sqlite.messages import drop, is_fulfilled, keep, waits_column
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list
from pinlater.server.backends.sqlite.verb import one_by_one

_HOLDER = QUERIES["claim_of_job"]
_CHECKPOINT = QUERIES["checkpoint_job"]
_RENEW = QUERIES["renew_jobs"]


class SqliteCheckpointRequest(NamedTuple):
    """The checkpoints of one call, all for one queue."""

    queue_id: int
    checkpoints: Sequence[StoredCheckpoint]


@one_by_one
def checkpoint(transaction: SqliteTransaction, queue_id: int, items: Sequence[StoredCheckpoint]) -> Settled:
    """Apply the checkpoints of a call to those jobs that its claims, or its source, hold."""
    renewals: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    changed = 0
    dues: list[int] = []
    given_back = [item.job.local_id for item in items if item.move_to_pending]
    asked = asked_of(transaction, queue_id, given_back) if given_back else {}
    for item in items:
        if item.claim is not None and item.is_renewal:
            renewals[item.claim, item.job.priority].append(item.job.local_id)
        elif _is_holder(transaction, queue_id, item):
            changed += 1
            due = _apply(transaction, queue_id, item)
            if item.move_to_pending:
                dues.append(transaction.now if due is None or item.job.local_id in asked else due)
    for (claim, priority), ids in renewals.items():
        changed += transaction.run(_RENEW, (queue_id, transaction.now, id_list(ids), claim, priority))
    stale = len(items) - changed
    through = report_ended(transaction, queue_id, given_back) if given_back else 0
    return Settled(
        changed,
        stale,
        min(dues, default=None),
        _lost(transaction, queue_id, items) if stale else (),
        let_through=through,
        cancelled=_asked(transaction, queue_id, items),
    )


def _asked(
    transaction: SqliteTransaction, queue_id: int, items: Sequence[StoredCheckpoint]
) -> tuple[JobDescriptor, ...]:
    """Return the jobs that are held as their checkpoints say, and are asked to stop."""
    asked = asked_of(transaction, queue_id, (item.job.local_id for item in items))
    if not asked:
        return ()
    return tuple(item.job for item in items if item.job.local_id in asked and _holds(item, asked[item.job.local_id]))


def _lost(
    transaction: SqliteTransaction, queue_id: int, items: Sequence[StoredCheckpoint]
) -> tuple[JobDescriptor, ...]:
    """Return the jobs that are not held as their checkpoints say, except those that were to be given back."""
    return tuple(item.job for item in items if not item.move_to_pending and not _is_holder(transaction, queue_id, item))


def _apply(transaction: SqliteTransaction, queue_id: int, item: StoredCheckpoint) -> int | None:
    """Apply a checkpoint to a job that is held; return when the job is due, None if its run_after stays."""
    now, local_id = transaction.now, item.job.local_id
    due = item.new_run_after_ms(now)
    if item.waits_for and is_fulfilled(transaction, local_id, item.waits_for):
        due = now if due is None else min(due, now)
    if item.keeps:
        keep(transaction, queue_id, local_id, item.keeps)
    if item.drops:
        drop(transaction, local_id, item.drops)
    waits = waits_column(item.waits_for)
    changes = (item.body, item.move_to_pending, due, item.attempts, item.status, waits)
    transaction.run(_CHECKPOINT, (queue_id, now, local_id, *changes))
    return due


def _is_holder(transaction: SqliteTransaction, queue_id: int, item: StoredCheckpoint) -> bool:
    rows = transaction.rows(_HOLDER, (queue_id, item.job.local_id, item.job.priority))
    return bool(rows) and _holds(item, rows[0][0])


def _holds(item: StoredCheckpoint, claim: str) -> bool:
    return bool(claim == item.claim if item.claim is not None else source_of(claim) == item.source)


@one_by_one
def release(transaction: SqliteTransaction, queue_id: int, source: str) -> int:
    """Give back all jobs of a queue that a source holds, without spending an attempt; return how many."""
    held = transaction.rows(QUERIES["claims_of_queue"], (queue_id,))
    ids = [local_id for local_id, claim in held if source_of(claim) == source]
    if not ids:
        return 0
    asked = list(asked_of(transaction, queue_id, ids))
    released = transaction.run(QUERIES["release_jobs"], (queue_id, transaction.now, id_list(ids)))
    if asked:
        report_ended(transaction, queue_id, asked)
    if queue_id in transaction.queues.rated:
        let_next_through(transaction, keys_of(transaction, queue_id, ids))
    return released

"""Cancel: PENDING -> FAILED; IN_PROGRESS -> asked to stop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING
from pinlater.server.backends.records import Cancelled
from pinlater.server.backends.sqlite.children import tell_ended
from pinlater.server.backends.sqlite.keys import keys_of, let_next_through
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list

_ASKED = QUERIES["asked_of_queue"]


class CancelRequest(NamedTuple):
    """Cancels jobs of one queue."""

    queue_id: int
    jobs: Sequence[JobDescriptor]
    status: str


def cancel(transaction: SqliteTransaction, requests: Sequence[CancelRequest]) -> list[Cancelled]:
    """Carry out each request."""
    return [_cancel(transaction, *request) for request in requests]


def _cancel(transaction: SqliteTransaction, queue_id: int, jobs: Sequence[JobDescriptor], status: str) -> Cancelled:
    rows = transaction.rows(QUERIES["states_of_jobs"], (queue_id, id_list({job.local_id for job in jobs})))
    found = {(priority, local_id): (state, is_marked) for local_id, priority, state, is_marked in rows}
    states = {job: found[job.priority, job.local_id] for job in jobs if (job.priority, job.local_id) in found}
    pending = [job.local_id for job, (state, _) in states.items() if state == PENDING]
    running = [job.local_id for job, (state, is_marked) in states.items() if state == IN_PROGRESS and not is_marked]
    through = _end(transaction, queue_id, pending, status) if pending else 0
    if running:
        transaction.mark_with_cancelled(queue_id)
        transaction.run(QUERIES["ask_to_stop"], (transaction.now, id_list(running), status))
    return Cancelled(
        tuple(job for job, (state, is_marked) in states.items() if state == PENDING or (state == FAILED and is_marked)),
        tuple(job for job, (state, _) in states.items() if state == IN_PROGRESS),
        through,
    )


def _end(transaction: SqliteTransaction, queue_id: int, ids: Sequence[int], status: str) -> int:
    """Make PENDING jobs FAILED and marked; return how many others are let through for them."""
    transaction.run(QUERIES["cancel_pending"], (transaction.now, id_list(ids), status))
    tell_ended(transaction, queue_id, ids)
    return let_next_through(transaction, keys_of(transaction, queue_id, ids))


def asked_of(transaction: SqliteTransaction, queue_id: int, ids: Iterable[int]) -> dict[int, str]:
    """Return those of some jobs that run and are asked to stop, with their claims.

    It costs nothing in a queue where nobody ever was.
    """
    if queue_id not in transaction.queues.with_cancelled:
        return {}
    return dict(transaction.rows(_ASKED, (queue_id, id_list(ids))))

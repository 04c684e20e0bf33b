"""Cancel: PENDING -> FAILED; IN_PROGRESS, or PENDING with something to undo -> asked to stop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING
from pinlater.server.backends.records import Cancelled
from pinlater.server.backends.sqlite.children import tell_failed
from pinlater.server.backends.sqlite.keys import keys_of, let_next_through
from pinlater.server.backends.sqlite.messages import Receiver, wake
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list
from pinlater.server.backends.sqlite.verb import one_by_one

_ASKED = QUERIES["asked_of_queue"]


class _Found(NamedTuple):
    """A job to cancel; ``has_to_undo`` is only looked up for PENDING jobs."""

    state: int
    is_marked: int
    has_to_undo: int
    may_have_children: int


@one_by_one
def cancel(transaction: SqliteTransaction, queue_id: int, jobs: Sequence[JobDescriptor], status: str) -> Cancelled:
    """Cancel jobs of a queue; return which were cancelled or asked to stop, by this call or an earlier one."""
    rows = transaction.rows(QUERIES["jobs_to_cancel"], (queue_id, id_list({job.local_id for job in jobs})))
    found = {(priority, local_id): _Found(*told) for local_id, priority, *told in rows}
    states = {job: found[job.priority, job.local_id] for job in jobs if (job.priority, job.local_id) in found}
    pending = [job.local_id for job, one in states.items() if one.state == PENDING and not one.has_to_undo]
    asked = [job for job, one in states.items() if one.state == IN_PROGRESS or one.has_to_undo]
    fresh = [job.local_id for job in asked if not states[job].is_marked]
    for state in (PENDING, IN_PROGRESS):
        transaction.run(QUERIES["end_periods"], (queue_id, id_list([*pending, *fresh]), state))
    through = 0
    if pending:
        transaction.run(QUERIES["cancel_pending"], (transaction.now, id_list(pending), status))
        through = report_ended(transaction, queue_id, pending)
    if fresh:
        transaction.mark_with_cancelled(queue_id)
        transaction.run(QUERIES["ask_to_stop"], (transaction.now, id_list(fresh), status))
    asleep = [Receiver(job.local_id, queue_id, job.priority, None) for job in asked if states[job].has_to_undo]
    if asleep:
        wake(transaction, queue_id, [job for job in asleep if job.job_id in fresh])
    ended = [job for job, one in states.items() if job.local_id in pending or (one.state == FAILED and one.is_marked)]
    parents = tuple(job for job in (*ended, *asked) if states[job].may_have_children)
    if marked := [job.local_id for job in parents if not states[job].is_marked]:
        transaction.run(QUERIES["mark_with_children"], (id_list(marked),))
    return Cancelled(tuple(ended), tuple(asked), through, parents, len(pending))


@one_by_one
def finish_cancellation(transaction: SqliteTransaction, queue_id: int, jobs: Sequence[JobDescriptor]) -> None:
    """Take cancelled jobs of a queue off the children to cancel."""
    transaction.run(QUERIES["finish_cancellation"], (queue_id, id_list(job.local_id for job in jobs)))


def report_ended(transaction: SqliteTransaction, queue_id: int, ids: Sequence[int]) -> int:
    """Report those of these jobs to their parents that this transaction has made FAILED.

    Return how many jobs of their keys are let through.
    """
    tell_failed(transaction, queue_id, ids)
    return let_next_through(transaction, keys_of(transaction, queue_id, ids))


def asked_of(transaction: SqliteTransaction, queue_id: int, ids: Iterable[int]) -> dict[int, str]:
    """Return those of these jobs that run and are asked to stop, with their claims.

    It costs nothing in a queue of which no job ever was.
    """
    if queue_id not in transaction.queues.with_cancelled:
        return {}
    return dict(transaction.rows(_ASKED, (queue_id, id_list(ids))))

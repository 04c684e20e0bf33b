"""Cancel: PENDING -> FAILED and marked; IN_PROGRESS, or PENDING with something to undo -> asked to stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING
from pinlater.server.backends.mysql.children import forget
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.failure_groups import take_out
from pinlater.server.backends.mysql.linked_changes import see_to_links
from pinlater.server.backends.mysql.queries import in_lists
from pinlater.server.backends.mysql.transaction import MysqlTransaction, Woken
from pinlater.server.backends.mysql.unique_keys import end_periods
from pinlater.server.backends.records import Cancelled
from pinlater.server.backends.search import Queue


class _Job(NamedTuple):
    """A job to cancel, as read under its lock; ``has_to_undo`` can only be set for PENDING jobs."""

    id: int
    priority: int
    state: int
    is_cancelled: int
    parent_id: int | None
    has_to_undo: int
    may_have_children: int
    unique_key: bytes | None

    @property
    def ends(self) -> bool:
        """Whether cancelling the job ends it at once."""
        return self.state == PENDING and not self.has_to_undo


async def cancel_jobs(database: Database, queue: Queue, jobs: Sequence[JobDescriptor], status: str) -> Cancelled:
    """Cancel jobs; return which of them were cancelled or asked to stop, by this call or an earlier one."""
    wanted = {job.local_id: job for job in jobs}
    ids = sorted(wanted)

    async def change(transaction: MysqlTransaction) -> Cancelled:
        found: list[_Job] = []
        for some in in_lists(ids):
            found += [_Job(*row) for row in await transaction.rows("jobs_to_cancel", ids=some, queue=queue.id)]
        found = [job for job in found if wanted[job.id].priority == job.priority]
        let_through = await _cancel(transaction, queue, found, status)
        ended = [job.id for job in found if job.ends or (job.state == FAILED and job.is_cancelled)]
        asked = [job.id for job in found if job.state == IN_PROGRESS or job.has_to_undo]
        cancelled = {*ended, *asked}
        parents = [job.id for job in found if job.may_have_children and job.id in cancelled]
        return Cancelled(
            tuple(wanted[job] for job in ended),
            tuple(wanted[job] for job in asked),
            let_through,
            tuple(wanted[job] for job in parents),
            sum(job.ends for job in found),
        )

    return await database.change(change, is_repeatable=True)


async def finish_cancellation(database: Database, queue: Queue, jobs: Sequence[JobDescriptor]) -> None:
    """Take cancelled jobs off the lists of children to cancel."""
    ids = sorted(job.local_id for job in jobs)

    async def change(transaction: MysqlTransaction) -> None:
        for some in in_lists(ids):
            if listed := await transaction.rows("jobs_with_children", ids=some, queue=queue.id):
                forget(transaction, listed)
                transaction.later(transaction.bind("finish_cancellation", ids=[local_id for _, local_id in listed]))

    await database.change(change, is_repeatable=True)


async def _cancel(transaction: MysqlTransaction, queue: Queue, found: Sequence[_Job], status: str) -> int:
    """Change the locked jobs that were not cancelled before; return how many jobs this lets through by their keys."""
    pending = [job.id for job in found if job.ends]
    asked = [job for job in found if (job.state == IN_PROGRESS or job.has_to_undo) and not job.is_cancelled]
    woken = [job for job in asked if job.has_to_undo]
    fresh_keys = (job.unique_key for job in (*(job for job in found if job.ends), *asked))
    await end_periods(transaction, queue.id, filter(None, fresh_keys))
    for ids in in_lists([job.id for job in woken]):
        transaction.later(transaction.bind("wake_jobs", ids=ids, now=transaction.now))
    transaction.woken += [Woken(queue.name, queue.id, job.priority) for job in woken]
    for name, cancelled in (("cancel_pending", pending), ("ask_to_stop", [job.id for job in asked])):
        for ids in in_lists(cancelled):
            transaction.later(transaction.bind(name, ids=ids, now=transaction.now, status=status))
    with_children = {job.id for job in found if job.parent_id is not None and job.may_have_children}
    for ids in in_lists(sorted(with_children.intersection((*pending, *(job.id for job in asked))))):
        transaction.later(transaction.bind("mark_with_children", ids=ids))
    changed = [*pending, *(job.id for job in woken)]
    for ids in in_lists(changed):
        take_out(transaction, ids)
    leaves = (job for job in asked if job.id not in with_children)
    forget(transaction, ((job.parent_id, job.id) for job in leaves if job.parent_id is not None))
    return await see_to_links(transaction, changed) if changed else 0

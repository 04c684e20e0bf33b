"""Cancel: PENDING -> FAILED and marked; IN_PROGRESS -> asked to stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING
from pinlater.server.backends.mysql.children import forget
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.failure_groups import take_out
from pinlater.server.backends.mysql.linked_changes import see_to_links
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.records import Cancelled
from pinlater.server.backends.search import Queue

_MAX_IDS = 5000
"""Ids in one statement."""


class _Job(NamedTuple):
    """A job to cancel, as it is when it is locked."""

    id: int
    priority: int
    state: int
    is_cancelled: int
    parent_id: int | None


async def cancel_jobs(database: Database, queue: Queue, jobs: Sequence[JobDescriptor], status: str) -> Cancelled:
    """Cancel jobs; return which were cancelled or asked to stop, now or before."""
    wanted = {job.local_id: job for job in jobs}
    ids = sorted(wanted)

    async def change(transaction: MysqlTransaction) -> Cancelled:
        found: list[_Job] = []
        for start in range(0, len(ids), _MAX_IDS):
            some = ids[start : start + _MAX_IDS]
            found += [_Job(*row) for row in await transaction.rows("jobs_to_cancel", ids=some, queue=queue.id)]
        found = [job for job in found if wanted[job.id].priority == job.priority]
        let_through = await _cancel(transaction, found, status)
        ended = [job.id for job in found if job.state == PENDING or (job.state == FAILED and job.is_cancelled)]
        asked = [job.id for job in found if job.state == IN_PROGRESS]
        return Cancelled(tuple(wanted[job] for job in ended), tuple(wanted[job] for job in asked), let_through)

    return await database.change(change, is_repeatable=True)


async def _cancel(transaction: MysqlTransaction, found: Sequence[_Job], status: str) -> int:
    """Change those of the locked jobs that were not cancelled before; return how many others are let through."""
    pending = [job.id for job in found if job.state == PENDING]
    asked = [job for job in found if job.state == IN_PROGRESS and not job.is_cancelled]
    for name, ids in (("cancel_pending", pending), ("ask_to_stop", [job.id for job in asked])):
        if ids:
            transaction.later(transaction.bind(name, ids=ids, now=transaction.now, status=status))
    take_out(transaction, pending)
    forget(transaction, ((job.parent_id, job.id) for job in asked if job.parent_id is not None))
    return await see_to_links(transaction, pending) if pending else 0

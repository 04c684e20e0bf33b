"""The rows of new and imported jobs, and the statements that insert them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pinlater.model.jobs import JobRecord, NewJob
from pinlater.protocol.messages import PENDING
from pinlater.server.backends.mysql.children import parent_columns
from pinlater.server.backends.mysql.enqueue_call import MysqlEnqueueCall, linked_columns
from pinlater.server.backends.mysql.key_line import KeyLine, Places
from pinlater.server.backends.mysql.keys import queue_key
from pinlater.server.backends.mysql.queries import insertions
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.mysql.unique_keys import Contents

Row = tuple[MysqlEnqueueCall, int]
"""A job: its call and its index there."""


class Insertion(NamedTuple):
    """How jobs are inserted.

    Attributes:
        statements: insert them; one fails if a queue was deleted. They lock each queue before its jobs.
        places: of the unfinished jobs with keys.
    """

    statements: list[bytes]
    places: Places


async def insert_statements(transaction: MysqlTransaction, rows: Sequence[Row], contents: Contents) -> Insertion:
    """Return how to insert jobs."""
    if any(call.is_linked for call, _ in rows):
        written, places = await _linked_rows(transaction, rows, contents)
        return Insertion([*insertions(transaction.bind("insert_linked_jobs"), written)], places)
    return Insertion(_unlinked(transaction, rows, contents), Places({}, {}))


def _unlinked(transaction: MysqlTransaction, rows: Sequence[Row], contents: Contents) -> list[bytes]:
    """Return the statements that insert jobs that have no links but parents."""
    written = (
        call.write_row(
            contents.get((id(call), index), call.jobs[index]) if contents else call.jobs[index],
            call.first_id + index,
            queue_id,
            transaction.now,
        )
        for call, index, queue_id in _with_queues(transaction, rows)
    )
    if not any(call.has_parents for call, _ in rows):
        return [*insertions(transaction.bind("insert_jobs"), written)]
    parents = (parent_columns(call.jobs[index].parent, call.queue.shard) for call, index in rows)
    linked = (b"%b,%b)" % (row[:-1], parent) for row, parent in zip(written, parents, strict=True))
    return [*insertions(transaction.bind("insert_jobs_with_parents"), linked)]


def _with_queues(transaction: MysqlTransaction, rows: Iterable[Row]) -> Iterator[tuple[MysqlEnqueueCall, int, bytes]]:
    """Add to each job the SQL expression of its queue's id."""
    queue_ids: dict[int, bytes] = {}
    for call, index in rows:
        queue_id = queue_ids.get(call.queue.id)
        if queue_id is None:
            queue_ids[call.queue.id] = b"%d" % call.queue.id
            queue_id = b"(%b)" % transaction.bind("present_queue", queue=call.queue.id)
        yield call, index, queue_id


async def _linked_rows(
    transaction: MysqlTransaction, rows: Sequence[Row], contents: Contents
) -> tuple[list[bytes], Places]:
    """Return the rows of jobs some of which are linked, and the places of those with keys."""
    jobs = {(id(call), index): contents.get((id(call), index), call.jobs[index]) for call, index in rows}
    waiting = [(call, index) for call, index in rows if call.has_keys and _waits(jobs[id(call), index])]
    line = KeyLine(transaction)
    await line.lock({(call.queue.id, jobs[id(call), index].key) for call, index in waiting})
    waiting.sort(key=_local_id)
    await line.set_rates(
        {
            queue_key(call.queue.id, job.key): job.key.rate
            for job, call in ((jobs[id(call), index], call) for call, index in waiting)
            if isinstance(job, NewJob) and job.key is not None and job.key.rate is not None
        }
    )
    places = line.place((call.queue.id, call.first_id + index, jobs[id(call), index]) for call, index in waiting)
    for call, index in waiting:
        run_after = places.run_after[call.first_id + index]
        jobs[id(call), index] = jobs[id(call), index]._replace(run_after_ms=run_after)
    written = [
        call.write_row(job := jobs[id(call), index], call.first_id + index, queue_id, transaction.now)[:-1]
        + b",%b)" % linked_columns(job, call.queue.shard)
        for call, index, queue_id in _with_queues(transaction, rows)
    ]
    return written, places


def _waits(job: NewJob | JobRecord) -> bool:
    """Return whether a job has to wait for its key; an imported job may be finished."""
    return job.key is not None and getattr(job, "state", PENDING) == PENDING


def _local_id(row: Row) -> int:
    return row[0].first_id + row[1]

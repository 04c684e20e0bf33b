"""Children: storing one checks its parent, and the transaction that ends it stores a message to the parent."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

import msgspec

from pinlater.errors import EnqueueRejected
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import NewJob
from pinlater.model.messages import Message, Parent
from pinlater.protocol.messages import FAILED, SUCCEEDED
from pinlater.server.backends.end_messages import end_kind
from pinlater.server.backends.sqlite.families import Family
from pinlater.server.backends.sqlite.messages import Mail, Successes, deliver, receivers_of
from pinlater.server.backends.sqlite.only_shard import SHARD
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list
from pinlater.server.backends.store import parent_refused

_PARENT_TO_BE = QUERIES["parent_to_be"]
_TOLD = QUERIES["told_by_jobs"]
_REFRESH = QUERIES["refresh_families"]
_REFRESH_ONE = QUERIES["refresh_family"]

_TOLD_CHARACTERS = 4000
"""How much of the end of a child's custom status goes into the message to the parent."""

_MOST_RELATIVES = 250
"""Most jobs of a family, so that few have to be read to see whether all have ended."""

_parent = msgspec.json.Decoder(Parent).decode


def store_families(transaction: SqliteTransaction, queue_id: int, jobs: Sequence[NewJob], first_id: int) -> None:
    """Store which of the new jobs, whose ids follow each other, are children of whom, and remember it."""
    rows: list[tuple[object, ...]] = []
    start = 0
    while start < len(jobs):
        parent, end = jobs[start].parent, start + 1
        if parent is not None:
            descriptor, name, position = parent
            shift, most = position - start, min(start + _MOST_RELATIVES, len(jobs))
            while end < most and jobs[end].parent == (descriptor, name, end + shift):
                end += 1
            parent_id = _parent_id(descriptor)
            rows.append((first_id + end - 1, first_id + start, parent_id, descriptor, name, position))
            transaction.families.add(Family(first_id + start, first_id + end, parent_id, name, shift - first_id))
        start = end
    if rows:
        transaction.mark_with_parents(queue_id)
        transaction.run_many(QUERIES["store_family"], rows)


@lru_cache(maxsize=256)  # few parents, many children
def _parent_id(descriptor: str) -> int:
    return JobDescriptor.parse(descriptor).local_id


def parent_of(column: str | None) -> Parent | None:
    """Decode the parent of a job as a query has encoded it."""
    return None if column is None else _parent(column)


def refusal(transaction: SqliteTransaction, jobs: Iterable[NewJob]) -> EnqueueRejected | None:
    """Return why jobs cannot be stored, None if they can.

    They cannot if the parent of one does not exist, has finished or is asked to stop.
    """
    for descriptor in {job.parent.descriptor for job in jobs if job.parent is not None}:
        queue, shard, priority, local_id = JobDescriptor.parse(descriptor)
        if shard != SHARD or not transaction.rows(_PARENT_TO_BE, (queue, local_id, priority)):
            return parent_refused(descriptor)
    return None


def note_successes(transaction: SqliteTransaction, queue_id: int, results: Iterable[tuple[int, bytes]]) -> None:
    """Note ids and results of jobs that have just become SUCCEEDED, so that they need not be read for parents.

    Costs nothing without children: then ``results`` is not iterated.
    """
    if queue_id in transaction.queues.with_parents:
        transaction.successes.update(results)


def tell_acked(transaction: SqliteTransaction, queue_id: int, ids: Iterable[int], *, is_any_stale: bool) -> None:
    """Store messages to the parents of those jobs that acks of this transaction have made SUCCEEDED or FAILED.

    Costs nothing without children. Jobs that had finished before, such as those of stale acks, are not reported again:
    their parents may have dropped the messages.
    """
    if queue_id not in transaction.queues.with_parents:
        return
    mail = Mail()
    others, families = _tell_known(transaction, mail, dict.fromkeys(ids))
    if others:
        read = Mail()
        families |= _tell(transaction, read, queue_id, others, (SUCCEEDED, FAILED, transaction.now))
        if is_any_stale:
            read.successes = {
                told: _untold(transaction, *told, successes) for told, successes in read.successes.items()
            }
        _deliver(transaction, read)
    _deliver(transaction, mail)
    _refresh(transaction, list(families))


def tell_failed(transaction: SqliteTransaction, queue_id: int, ids: Collection[int]) -> None:
    """Store messages to the parents of those jobs that have become FAILED in this transaction."""
    _tell_if_any(transaction, queue_id, ids, (FAILED, FAILED, transaction.now))


def tell_deleted(transaction: SqliteTransaction, queue_id: int, ids: Collection[int], state: int) -> None:
    """Store messages to the parents of jobs that are to be deleted, unless ``state`` says that they have finished."""
    if state < SUCCEEDED:
        _tell_if_any(transaction, queue_id, ids, (state, state, None))


def _tell_if_any(
    transaction: SqliteTransaction, queue_id: int, ids: Collection[int], which: tuple[int, int, int | None]
) -> None:
    if ids and queue_id in transaction.queues.with_parents:
        mail = Mail()
        families = _tell(transaction, mail, queue_id, ids, which)
        _deliver(transaction, mail)
        _refresh(transaction, list(families))


def refresh_families(transaction: SqliteTransaction, queue_id: int, ids: Iterable[int]) -> None:
    """Note which families have unfinished jobs, after some have ended or were retried.

    Args:
        transaction: has changed the jobs.
        queue_id: their queue.
        ids: ids of jobs, one or more of each family.
    """
    if queue_id in transaction.queues.with_parents:
        _refresh(transaction, list(ids))


def _refresh(transaction: SqliteTransaction, ids: Sequence[int]) -> None:
    if len(ids) == 1:  # such as the family of all jobs that a call acks
        transaction.run(_REFRESH_ONE, ids)
    elif ids:
        transaction.run(_REFRESH, (id_list(ids),))


def forget_families(transaction: SqliteTransaction, queue_id: int, ids: Iterable[int]) -> None:
    """Forget the families of deleted jobs of which no job is left."""
    if queue_id in transaction.queues.with_parents and (listed := list(ids)):
        transaction.run(QUERIES["forget_families"], (id_list(listed),))
        _refresh(transaction, listed)


def _deliver(transaction: SqliteTransaction, mail: Mail) -> None:
    if wanted := mail.receivers:
        deliver(transaction, mail, receivers_of(transaction, wanted))


def _untold(transaction: SqliteTransaction, parent_id: int, name: str, successes: Successes) -> Successes:
    """Leave out what an earlier transaction of this millisecond has told: to this one, the jobs look the same."""
    rows = transaction.rows(QUERIES["newest_successes"], (parent_id, name))
    told = {position for (ids,) in rows for position in ids.split(",")}
    left = Successes([], [])
    for position, result in zip(*successes, strict=True):
        if str(position) not in told:
            left.add(position, result)
    return left


def _tell_known(transaction: SqliteTransaction, mail: Mail, ids: Iterable[int]) -> tuple[list[int], set[int]]:
    """Add the messages of jobs whose parents and results need not be read.

    Return the ids of the others, and the last id of each family that jobs were found of.
    """
    results, others, families = transaction.successes, list[int](), set[int]()
    first, end, parent_id, name, shift = Family(0, 0)
    successes: Successes | None = None
    for local_id in ids:
        if not first <= local_id < end:
            first, end, parent_id, name, shift = transaction.families.find(local_id)
            successes = None
        result = results.pop(local_id, None)
        if parent_id is None or result is None:
            others.append(local_id)
            continue
        if successes is None:
            successes = mail.successes_to(parent_id, name)
            families.add(end - 1)
        successes.add(local_id + shift, result)
    return others, families


def _tell(
    transaction: SqliteTransaction, mail: Mail, queue_id: int, ids: Iterable[int], which: tuple[int, int, int | None]
) -> set[int]:
    """Add the messages of jobs to their parents; return the last id of each of their families.

    Args:
        transaction: the transaction that ends or deletes them.
        mail: gets the messages.
        queue_id: id of their queue.
        ids: ids of the jobs.
        which: of these, only those in a state from the first to the second, and last changed at the third if given.
    """
    families = set[int]()
    for last_id, parent_id, name, position, state, is_cancelled, result, status in transaction.rows(
        _TOLD, (queue_id, id_list(ids), *which)
    ):
        families.add(last_id)
        if state == SUCCEEDED:
            mail.successes_to(parent_id, name).add(position, result or b"")
        else:
            payload = status[-_TOLD_CHARACTERS:].encode()
            kind = end_kind(state, is_cancelled=is_cancelled)
            mail.messages[parent_id].append(Message(name, str(position), payload, kind))
    return families


def to_cancel(connection: sqlite3.Connection, parents: Sequence[JobDescriptor], limit: int) -> list[JobDescriptor]:
    """Return up to ``limit`` children that have to be cancelled with their parents."""
    wanted = id_list(parent.local_id for parent in parents)
    rows = connection.execute(QUERIES["children_to_cancel"], (wanted, limit)).fetchall()
    return [JobDescriptor(queue, SHARD, priority, local_id) for queue, priority, local_id in rows]

"""Children: storing one checks its parent, and the transaction that ends it stores a message to the parent."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from pinlater.errors import EnqueueRejected
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import NewJob
from pinlater.model.messages import Message, Parent
from pinlater.protocol.messages import FAILED, SUCCEEDED
from pinlater.server.backends.end_messages import end_kind
from pinlater.server.backends.sqlite.messages import deliver, deliver_results, receivers_of
from pinlater.server.backends.sqlite.only_shard import SHARD
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list
from pinlater.server.backends.store import parent_refused

_PARENT_TO_BE = QUERIES["parent_to_be"]
_TOLD = QUERIES["told_by_jobs"]
_FIRST_ENDED = QUERIES["first_ended_child"]
_COUNT_ENDED = QUERIES["count_ended_children"]

_TOLD_CHARACTERS = 4000
"""How much of the end of a child's custom status goes into the message to the parent."""

NO_PARENT = None, None
"""The parent columns of a job without a parent."""

_parent = msgspec.json.Decoder(Parent).decode


def parent_columns(job: NewJob) -> tuple[int | None, str | None]:
    """Return the parent columns of a new job."""
    if job.parent is None:
        return NO_PARENT
    descriptor, name, position = job.parent
    parent_id, head = _stored_parent(descriptor, name)
    return parent_id, f"{head},{position}]"


@lru_cache(maxsize=256)  # few parents, many children
def _stored_parent(descriptor: str, name: str) -> tuple[int, str]:
    """Return a parent's id, and the JSON list that a child stores about it, up to the child's position."""
    return JobDescriptor.parse(descriptor).local_id, msgspec.json.encode([descriptor, name])[:-1].decode()


def parent_of(column: str | None) -> Parent | None:
    """Decode the parent of a stored job."""
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


def tell_ended(transaction: SqliteTransaction, queue_id: int, ids: Sequence[int]) -> None:
    """Store messages to the parents of those jobs that have become SUCCEEDED or FAILED in this transaction.

    Costs nothing without children. Jobs that had finished before, such as those of stale acks, are not reported again:
    their parents may have dropped the messages.
    """
    if ids and queue_id in transaction.queues.with_parents and not _tell_as_one(transaction, queue_id, ids):
        _tell(transaction, queue_id, ids, (SUCCEEDED, FAILED, transaction.now))


def _tell_as_one(transaction: SqliteTransaction, queue_id: int, ids: Sequence[int]) -> bool:
    """Report jobs that have just SUCCEEDED, if they have the parent and message name of the first that has just ended.

    Return whether that reported everything. Usually all jobs in a batch are children of one parent; then the database
    copies their results without passing each through Python.
    """
    listed = id_list(ids)
    found = transaction.rows(_FIRST_ENDED, (queue_id, listed, transaction.now))
    if not found:
        return True
    [(parent_id, head)] = found
    receivers = receivers_of(transaction, [parent_id])
    if not receivers:
        return False
    name = msgspec.json.decode(head[:-1] + "]", type=tuple[str, str])[1]
    told = deliver_results(transaction, receivers[0], name, (queue_id, listed, head))
    if told == len(ids):
        return True
    [(ended,)] = transaction.rows(_COUNT_ENDED, (queue_id, listed, transaction.now))
    return bool(told == ended)


def tell_deleted(transaction: SqliteTransaction, queue_id: int, ids: Sequence[int], state: int) -> None:
    """Store messages to the parents of jobs that are to be deleted, unless ``state`` says that they have finished."""
    if ids and state < SUCCEEDED and queue_id in transaction.queues.with_parents:
        _tell(transaction, queue_id, ids, (state, state, None))


def _tell(
    transaction: SqliteTransaction, queue_id: int, ids: Sequence[int], which: tuple[int, int, int | None]
) -> None:
    """Store messages to the parents of jobs.

    Args:
        transaction: the transaction that ends or deletes them.
        queue_id: id of their queue.
        ids: ids of the jobs.
        which: of these, only those in a state from the first to the second, and last changed at the third if given.
    """
    mail: defaultdict[int, list[Message]] = defaultdict(list)
    for parent_id, column, state, is_cancelled, result, status in transaction.rows(
        _TOLD, (queue_id, id_list(ids), *which)
    ):
        _, name, position = _parent(column)
        payload = (result or b"") if state == SUCCEEDED else status[-_TOLD_CHARACTERS:].encode()
        mail[parent_id].append(Message(name, str(position), payload, end_kind(state, is_cancelled=is_cancelled)))
    if mail:
        deliver(transaction, mail, receivers_of(transaction, mail))


def to_cancel(connection: sqlite3.Connection, parents: Sequence[JobDescriptor], limit: int) -> list[JobDescriptor]:
    """Return up to ``limit`` children that have to be cancelled with their parents."""
    wanted = id_list(parent.local_id for parent in parents)
    rows = connection.execute(QUERIES["children_to_cancel"], (wanted, limit)).fetchall()
    return [JobDescriptor(queue, SHARD, priority, local_id) for queue, priority, local_id in rows]

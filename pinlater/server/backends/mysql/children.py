"""Children: jobs that tell another one, their parent, of their end, in the transaction that ends them.

A transaction changes the children first, then locks the parents, in the order of ids; see ``messages``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import Message, Parent
from pinlater.server.backends.end_messages import end_kind
from pinlater.server.backends.mysql.connection import StatementResult
from pinlater.server.backends.mysql.keys import Keys
from pinlater.server.backends.mysql.messages import Incoming, deliver
from pinlater.server.backends.mysql.queries import blob, insertions
from pinlater.server.backends.mysql.transaction import MysqlTransaction


def told_children(transaction: MysqlTransaction, ids: Sequence[int], *, is_deletion: bool = False) -> bytes:
    """Return the query for what ``tell`` needs, of jobs that may have finished or are to be deleted."""
    return transaction.bind("told_children", ids=ids, is_deletion=is_deletion)


async def tell(transaction: MysqlTransaction, told: StatementResult) -> Keys:
    """Store messages to the parents of jobs; return the keys of those that are woken, for ``let_next_through``.

    What it changes is executed with the transaction's next statements.
    """
    if not told.rows:
        return {}
    parents: dict[bytes, JobDescriptor] = {}
    incoming: list[Incoming] = []
    for _, _, _, parent, name, position, state, is_cancelled, payload in told.rows:
        if parent not in parents:
            parents[parent] = JobDescriptor.parse(parent.decode())
        message = Message(
            name.decode(), str(position), payload or b"", end_kind(state, is_cancelled=bool(is_cancelled))
        )
        incoming.append(Incoming(parents[parent], None, message))
    delivered = await deliver(transaction, incoming)
    forget(transaction, ((parent_id, local_id) for local_id, _, parent_id, *_ in told.rows))
    return delivered.keys


async def tell_parents_of(transaction: MysqlTransaction, ids: Collection[int], *, is_deletion: bool = False) -> Keys:
    """Tell the parents of those jobs that have finished, or of all, as they are deleted next; see ``tell``."""
    if not ids:
        return {}
    [told] = await transaction.run(told_children(transaction, sorted(ids), is_deletion=is_deletion))
    return await tell(transaction, told)


async def delete_children(transaction: MysqlTransaction, parents: Mapping[int, int], doomed: Collection[int]) -> Keys:
    """Tell the parents of unfinished jobs, given by id, that these are deleted next; see ``tell``.

    Parents that are deleted with them are told nothing.
    """
    forget(transaction, ((parent, child) for child, parent in parents.items() if parent in doomed))
    told = [child for child, parent in parents.items() if parent not in doomed]
    return await tell_parents_of(transaction, told, is_deletion=True)


def forget(transaction: MysqlTransaction, pairs: Iterable[tuple[int, int]]) -> None:
    """Take jobs, each with its parent before it, from the list of those that nobody has to cancel any more."""
    given = sorted(pairs)
    if given:
        transaction.later(transaction.bind("delete_children", pairs=json.dumps(given)))


async def lock_parents(transaction: MysqlTransaction, parents: Iterable[JobDescriptor]) -> set[JobDescriptor]:
    """Return which of some jobs may have another child: they are there, have not finished and are not asked to stop.

    So they stay until the transaction ends.
    """
    wanted = set(parents)
    ids = sorted({parent.local_id for parent in wanted})
    _, found = await transaction.run(
        transaction.bind("touch_parents", ids=ids), transaction.bind("able_parents", ids=ids)
    )
    able = {(local_id, queue, priority) for local_id, queue, priority in found.rows}
    return {parent for parent in wanted if (parent.local_id, parent.queue, parent.priority) in able}


def parent_columns(parent: Parent | None) -> bytes:
    """Return what is stored of a job's parent, as SQL."""
    if parent is None:
        return b"NULL,NULL,NULL,NULL"
    return b"%b,%d" % (_columns_of_siblings(parent.descriptor, parent.name), parent.position)


@lru_cache(maxsize=256)  # few parents, many children
def _columns_of_siblings(descriptor: str, name: str) -> bytes:
    return b"%d,%b,%b" % (_id_of(descriptor), blob(descriptor.encode()), blob(name.encode()))


@lru_cache(maxsize=256)
def _id_of(descriptor: str) -> int:
    return JobDescriptor.parse(descriptor).local_id


def insert_children(transaction: MysqlTransaction, children: Iterable[tuple[int, Parent]]) -> list[bytes]:
    """Return the statements that list new jobs, given by id, as unfinished children."""
    rows = (b"(%d,%d)" % (_id_of(parent.descriptor), job_id) for job_id, parent in children)
    return [*insertions(transaction.bind("insert_children"), rows)]


def parent_of(parent: bytes | None, name: bytes | None, position: int | None) -> Parent | None:
    """Return the parent of a stored job."""
    if parent is None or name is None or position is None:
        return None
    return Parent(parent.decode(), name.decode(), position)

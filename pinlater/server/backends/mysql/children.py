"""Children: jobs whose end is reported to another job, their parent, in the transaction that ends them.

A transaction changes the children first, then locks the parents, in the order of ids; see ``messages``. If a parent is
on another shard, the transaction leaves the message for that shard, and the parent's number in the tables is negative.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import Parent
from pinlater.server.backends.grouping import grouped
from pinlater.server.backends.mysql.connection import StatementResult
from pinlater.server.backends.mysql.keys import Keys
from pinlater.server.backends.mysql.messages import open_inboxes, settle
from pinlater.server.backends.mysql.queries import blob, insertions
from pinlater.server.backends.mysql.transaction import MysqlTransaction

ORIGIN = secrets.randbits(62)
"""Identifies the messages for other shards that this process leaves."""


def told_children(transaction: MysqlTransaction, ids: Sequence[int], *, is_deletion: bool = False) -> bytes:
    """Return the query whose result ``tell`` takes, for jobs that may just have finished or are to be deleted.

    Jobs that had finished before, such as those of stale acks, are not reported again: their parents may have dropped
    the messages.
    """
    return transaction.bind("told_children", ids=ids, is_deletion=is_deletion, now=transaction.now)


class _EndedChildren(NamedTuple):
    """Jobs whose ends one parent gets as messages of one name.

    Attributes:
        parent_id: the parent's number in the tables, below 0 if it is on another shard.
        parent: descriptor of the parent.
        name: name of the messages.
        ids: ids of the jobs.
        unlisted: ids of those that are no longer to be cancelled with the parent.
        positions: for each position, the id of the first job that has it.
    """

    parent_id: int
    parent: JobDescriptor
    name: bytes
    ids: list[int]
    unlisted: list[int]
    positions: dict[int, int]


async def tell(transaction: MysqlTransaction, told: StatementResult) -> Keys:
    """Store messages to the parents of jobs; return the keys of the parents it wakes, for ``let_next_through``.

    The database copies the results without passing each through Python. The changes are executed with the
    transaction's next statements.
    """
    if not told.rows:
        return {}
    calls = _calls(told)
    here = [call for call in calls if call.parent_id >= 0]
    woken = await _tell_here(transaction, here) if here else {}
    for call in calls:
        if call.parent_id < 0:
            _leave_ends(transaction, call.parent, call.ids)
        if call.unlisted:
            _forget(transaction, call.parent_id, call.unlisted)
    return woken


async def _tell_here(transaction: MysqlTransaction, calls: Sequence[_EndedChildren]) -> Keys:
    """Store messages to parents on this shard; see ``tell``."""
    inboxes, counts, known = await open_inboxes(
        transaction,
        [(call.parent_id, call.name) for call in calls],
        *(
            transaction.bind("known_ends", parent=call.parent_id, name=call.name, positions=list(call.positions))
            for call in calls
        ),
    )
    stored: Counter[int] = Counter()
    for (parent_id, _, name, _, _, positions), result in zip(calls, known, strict=True):
        for (position,) in result.rows:
            del positions[position]
        if positions and parent_id in inboxes:
            told_ids, count = list(positions.values()), counts[parent_id, name]
            transaction.later(transaction.bind("insert_ends", ids=told_ids, parent=parent_id, name=name, count=count))
            counts[parent_id, name] += len(positions)
            stored[parent_id] += len(positions)
    return settle(transaction, inboxes, counts, stored, {call.parent_id: call.parent.queue for call in calls})


def _leave_ends(transaction: MysqlTransaction, parent: JobDescriptor, ids: Sequence[int]) -> None:
    """Leave messages about the ends of jobs for a parent on another shard; the next statements store them."""
    transaction.outgoing.add(parent.shard)
    shard = parent.shard.encode()
    transaction.later(transaction.bind("leave_ends", ids=ids, shard=shard, origin=ORIGIN, now=transaction.now))


def _calls(told: StatementResult) -> list[_EndedChildren]:
    calls: dict[tuple[bytes, bytes], _EndedChildren] = {}
    for _, parent_id, parent, name, position, local_id, is_listed in told.rows:
        call = calls.get((parent, name))
        if call is None:
            descriptor = JobDescriptor.parse(parent.decode())
            call = calls[parent, name] = _EndedChildren(parent_id, descriptor, name, [], [], {})
        call.ids.append(local_id)
        if not is_listed:
            call.unlisted.append(local_id)
        call.positions.setdefault(position, local_id)
    return list(calls.values())


async def tell_parents_of(transaction: MysqlTransaction, ids: Collection[int], *, is_deletion: bool = False) -> Keys:
    """Tell the parents of the jobs that have just finished, or of all if they are about to be deleted; see ``tell``."""
    if not ids:
        return {}
    [told] = await transaction.run(told_children(transaction, sorted(ids), is_deletion=is_deletion))
    return await tell(transaction, told)


async def delete_children(transaction: MysqlTransaction, parents: Mapping[int, int], doomed: Collection[int]) -> Keys:
    """Tell the parents of unfinished jobs that are about to be deleted; see ``tell``.

    Args:
        transaction: deletes the jobs.
        parents: ids of the parents, by id of the job.
        doomed: ids of all jobs that it deletes; parents among them are told nothing.
    """
    forget(transaction, ((parent, child) for child, parent in parents.items() if parent in doomed))
    told = [child for child, parent in parents.items() if parent not in doomed]
    return await tell_parents_of(transaction, told, is_deletion=True)


def forget(transaction: MysqlTransaction, pairs: Iterable[tuple[int, int]]) -> None:
    """Take jobs off the list of children to cancel with their parents, given as (parent id, job id)."""
    for parent_id, ids in sorted(grouped(pairs).items()):
        _forget(transaction, parent_id, ids)


def _forget(transaction: MysqlTransaction, parent_id: int, ids: Sequence[int]) -> None:
    transaction.later(transaction.bind("delete_children", parent=parent_id, ids=sorted(ids)))


async def able_parents(transaction: MysqlTransaction, parents: Iterable[JobDescriptor]) -> set[JobDescriptor]:
    """Return the parents that may have another child: they exist, have not finished and are not asked to stop.

    They are not locked here; the statements of ``insert_children`` check again.
    """
    wanted = set(parents)
    if not wanted:
        return wanted
    found = await transaction.rows("able_parents", ids=sorted({parent.local_id for parent in wanted}))
    able = {(local_id, queue, priority) for local_id, queue, priority in found}
    return {parent for parent in wanted if (parent.local_id, parent.queue, parent.priority) in able}


def parent_columns(parent: Parent | None, shard: str) -> bytes:
    """Return the values of the parent columns for a job on a shard, as SQL."""
    if parent is None:
        return b"NULL,NULL,NULL,NULL"
    return b"%b,%d" % (_columns_of_siblings(parent.descriptor, parent.name, shard), parent.position)


@lru_cache(maxsize=256)  # few parents, many children
def _columns_of_siblings(descriptor: str, name: str, shard: str) -> bytes:
    return b"%d,%b,%b" % (_number_of(descriptor, shard), blob(descriptor.encode()), blob(name.encode()))


def parent_number(parent: JobDescriptor, shard: str) -> int:
    """Return the number of a parent in the tables of a shard: its id if it is on that shard, else a hash below 0."""
    if parent.shard == shard:
        return parent.local_id
    return ~(int.from_bytes(blake2b(str(parent).encode(), digest_size=8).digest()) >> 1)


@lru_cache(maxsize=256)
def _number_of(descriptor: str, shard: str) -> int:
    return parent_number(JobDescriptor.parse(descriptor), shard)


def insert_children(transaction: MysqlTransaction, children: Iterable[tuple[int, Parent]], shard: str) -> list[bytes]:
    """Return the statements that list new jobs of a shard, given as (id, parent), as unfinished children.

    They lock the parents on this shard, and one fails if any of these may have no more children. Execute them as late
    as possible: children that end meanwhile wait for the locks.
    """
    rows: list[bytes] = []
    parents: set[int] = set()
    for job_id, parent in children:
        parent_id = _number_of(parent.descriptor, shard)
        if parent_id < 0 or parent_id in parents:
            rows.append(b"(%d,%d)" % (parent_id, job_id))
        else:
            parents.add(parent_id)
            rows.append(b"((%b),%d)" % (transaction.bind("present_parent", id=parent_id), job_id))
    touch = [transaction.bind("touch_parents", ids=sorted(parents))] if parents else []
    return [*touch, *insertions(transaction.bind("insert_children"), rows)]


def parent_of(parent: bytes | None, name: bytes | None, position: int | None) -> Parent | None:
    """Return the parent of a stored job."""
    if parent is None or name is None or position is None:
        return None
    return Parent(parent.decode(), name.decode(), position)

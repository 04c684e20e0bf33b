"""Which new jobs of a transaction get their unique keys, and which are duplicates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pinlater.model.unique import UniqueRule
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.search import Queue
from pinlater.server.backends.unique_keys import KeyHolder

Slot = tuple[int, int]
"""Identity of a call, and index of a job there."""

Duplicates = Mapping[Slot, str]
"""Job that is not stored -> descriptor of the job that has its key."""


class KeyedJob(NamedTuple):
    """A new job with a unique key."""

    slot: Slot
    queue: Queue
    key: str
    rule: UniqueRule | None
    priority: int
    local_id: int


class Resolution(NamedTuple):
    """What becomes of new jobs with unique keys.

    Attributes:
        duplicates: those that are not stored.
        freed: ids of the started jobs that give up their keys.
    """

    duplicates: dict[Slot, str]
    freed: list[int]


async def resolve(transaction: MysqlTransaction, jobs: Sequence[KeyedJob]) -> Resolution:
    """Decide about each job in turn: stored jobs have keys, and so have those before it.

    The holders are read without locks. Whether one was claimed does not change back, and if two servers give its key
    away, the second one to insert it meets a conflict.
    """
    holders = await _holders(transaction, jobs)
    resolution = Resolution({}, [])
    for job in jobs:
        at = job.queue.id, job.key
        holder = holders.get(at)
        if holder is not None and holder.gives_way_to(job.rule):
            resolution.freed.append(holder.local_id)
            holder = None
        if holder is None:
            holders[at] = KeyHolder(job.priority, job.local_id)
        elif holder.local_id != job.local_id:
            resolution.duplicates[job.slot] = f"{job.queue.prefixes[holder.priority - 1]}{holder.local_id}"
    return resolution


async def _holders(transaction: MysqlTransaction, jobs: Iterable[KeyedJob]) -> dict[tuple[int, str], KeyHolder]:
    """Return the stored jobs that have the keys of these, by queue id and key."""
    wanted: dict[int, set[str]] = {}
    for job in jobs:
        wanted.setdefault(job.queue.id, set()).add(job.key)
    holders: dict[tuple[int, str], KeyHolder] = {}
    for queue_id, keys in wanted.items():
        rows = await transaction.rows("unique_jobs", queue=queue_id, keys=sorted(key.encode() for key in keys))
        for key, priority, local_id, is_started in rows:
            holders[queue_id, key.decode()] = KeyHolder(priority, local_id, bool(is_started))
    return holders


def statements(transaction: MysqlTransaction, resolution: Resolution, queue_ids: Sequence[int]) -> list[bytes]:
    """Return the statements that change stored jobs, to be executed before the insertions.

    They lock the queues first, as insertions do, so that nobody who locks queues waits for these jobs in turn.
    """
    if not resolution.freed:
        return []
    return [
        transaction.bind("share_queues", queues=queue_ids),
        transaction.bind("free_keys", ids=sorted(resolution.freed)),
    ]

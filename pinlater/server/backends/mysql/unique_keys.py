"""Which new jobs of a transaction get their unique keys, which are duplicates, and how long keys stay taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from pinlater.model.jobs import JobRecord, NewJob
from pinlater.model.unique import UniqueRule
from pinlater.server.backends.grouping import grouped
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.errors import TransactionConflict
from pinlater.server.backends.mysql.failure_groups import take_out_revived
from pinlater.server.backends.mysql.queries import blob, in_lists
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.search import Queue
from pinlater.server.backends.unique_keys import KeyHolder, key_holders, replaced, replaced_import

Slot = tuple[int, int]
"""Identity of a call, and index of a job in it."""

Contents = Mapping[Slot, NewJob | JobRecord]
"""Jobs that are stored with the content of a later one in the same transaction."""

Duplicates = Mapping[Slot, str]
"""A job that is not stored -> descriptor of the job that has its key."""


class UniqueJob(NamedTuple):
    """A new or imported job with a unique key; an imported one is a duplicate only of unfinished jobs."""

    slot: Slot
    queue: Queue
    key: str
    priority: int
    local_id: int
    content: NewJob | JobRecord

    @property
    def rule(self) -> UniqueRule | None:
        """Its further rules, if it is new and has some."""
        return self.content.unique_rule if isinstance(self.content, NewJob) else None


class Resolution(NamedTuple):
    """What to do with new jobs that have unique keys.

    Attributes:
        duplicates: new jobs that are not stored.
        freed: ids of started jobs that give up their keys.
        contents: jobs that are stored with the content of a later one in the batch.
        replacements: jobs in the store that get the content of a new one, in order: id, the new job, and when it is due
            (None: as before).
    """

    duplicates: dict[Slot, str]
    freed: list[int]
    contents: dict[Slot, NewJob | JobRecord]
    replacements: list[tuple[int, NewJob, int | None]]


async def resolve(transaction: MysqlTransaction, jobs: Sequence[UniqueJob]) -> Resolution:
    """Decide about each job in turn, given the keys of stored jobs and of the new jobs before it.

    The holders are read without locks: a job that was ever claimed remains so, and if two servers give away the same
    key, the second one to insert it meets a conflict.
    """
    holders = await _holders(transaction, jobs) if jobs else {}
    resolution = Resolution({}, [], {}, [])
    new: dict[int, UniqueJob] = {}
    for job in jobs:
        at, content = (job.queue.id, job.key), job.content
        holder = holders.get(at)
        if holder is not None and holder.is_finished and isinstance(content, JobRecord):
            holder = None
        elif holder is not None and holder.gives_way_to(job.rule):
            resolution.freed.append(holder.local_id)
            holder = None
        if holder is None:
            created_at = content.created_at_ms if isinstance(content, JobRecord) else transaction.now
            holders[at] = KeyHolder(job.priority, job.local_id, created_at)
            new[job.local_id] = job
        elif holder.local_id != job.local_id:
            resolution.duplicates[job.slot] = f"{job.queue.prefixes[holder.priority - 1]}{holder.local_id}"
            if isinstance(content, NewJob) and holder.is_replaced_by(content):
                _replace(resolution, holder, content, new.get(holder.local_id), transaction.now)
    return resolution


def _replace(resolution: Resolution, holder: KeyHolder, job: NewJob, of_batch: UniqueJob | None, now: int) -> None:
    due = holder.replaced_due(job, now)
    if of_batch is None:
        resolution.replacements.append((holder.local_id, job, due))
        return
    stored = resolution.contents.get(of_batch.slot, of_batch.content)
    if isinstance(stored, JobRecord):
        resolution.contents[of_batch.slot] = replaced_import(stored, job, due, now)
    else:
        resolution.contents[of_batch.slot] = replaced(stored, job, due)


async def replace(transaction: MysqlTransaction, resolution: Resolution, queue_ids: Sequence[int]) -> None:
    """Replace stored jobs.

    Raises:
        TransactionConflict: one was claimed or deleted since the keys were read.
    """
    if not resolution.replacements:
        return
    replacements = [
        transaction.bind(
            "replace_job",
            id=local_id,
            body=job.body,
            body_bytes=len(job.body),
            attempts=job.attempts,
            status=job.status,
            run_after=due,
            now=transaction.now,
        )
        for local_id, job, due in sorted(resolution.replacements, key=itemgetter(0))  # in the order of locks
    ]
    _, *results = await transaction.run(transaction.bind("share_queues", queues=queue_ids), *replacements)
    if not all(result.matched for result in results):
        raise TransactionConflict("a job that was to be replaced is not waiting any more")
    take_out_revived(transaction, [local_id for local_id, *_ in resolution.replacements])  # of those that were imported


async def _holders(transaction: MysqlTransaction, jobs: Iterable[UniqueJob]) -> dict[tuple[int, str], KeyHolder]:
    """Return the holders of these jobs' keys, by queue id and key."""
    wanted: dict[int, set[str]] = {}
    for job in jobs:
        wanted.setdefault(job.queue.id, set()).add(job.key)
    holders: dict[tuple[int, str], KeyHolder] = {}
    listed = [(queue_id, some) for queue_id, keys in wanted.items() for some in in_lists(sorted(map(str.encode, keys)))]
    for queue_id, keys in listed:
        of_jobs, of_periods = await transaction.run(
            transaction.bind("unique_jobs", queue=queue_id, keys=keys),
            transaction.bind("unique_periods", queue=queue_id, keys=keys, now=transaction.now),
        )
        found = key_holders(
            [(key.decode(), *rest) for key, *rest in of_jobs.rows],
            [(key.decode(), *rest) for key, *rest in of_periods.rows],
        )
        holders |= {(queue_id, key): holder for key, holder in found.items()}
    return holders


def statements(transaction: MysqlTransaction, resolution: Resolution, queue_ids: Sequence[int]) -> list[bytes]:
    """Return the statements that free keys of stored jobs, to be executed before the insertions.

    They lock the queues first, as insertions do, so that no deadlock arises with a transaction that has locked a queue.
    """
    if not resolution.freed:
        return []
    return [
        transaction.bind("share_queues", queues=queue_ids),
        transaction.bind("free_keys", ids=sorted(resolution.freed)),
    ]


async def begin_periods(transaction: MysqlTransaction, jobs: Iterable[UniqueJob]) -> None:
    """Begin periods in which keys stay taken, for the stored jobs whose rules ask for that.

    Raises:
        TransactionConflict: another server has begun a period for a key since the keys were read.
    """
    by_queue = grouped((job.queue.id, job) for job in jobs if job.rule is not None and job.rule.period_ms)
    for queue_id, of_queue in sorted(by_queue.items()):
        of_queue.sort(key=lambda job: job.key.encode())
        for begun in in_lists(of_queue):
            _, found = await transaction.run(
                transaction.bind("insert_periods")
                + b",".join(_period_row(transaction, job) for job in begun)
                + b" "
                + transaction.bind("replace_ended_periods", now=transaction.now),
                transaction.bind("period_jobs", queue=queue_id, keys=[job.key.encode() for job in begun]),
            )
            if {row[0] for row in found.rows} != {job.local_id for job in begun}:
                raise TransactionConflict("another server has given a unique key away for a time")


def _period_row(transaction: MysqlTransaction, job: UniqueJob) -> bytes:
    period_ms = 0 if job.rule is None else job.rule.period_ms
    numbers = job.queue.id, blob(job.key.encode()), job.priority, job.local_id, transaction.now + period_ms
    return b"(%d,%b,%d,%d,%d)" % numbers


async def end_periods(transaction: MysqlTransaction, queue_id: int, keys: Iterable[bytes]) -> None:
    """End the periods of the unique keys of unfinished jobs that are about to be deleted, or are cancelled."""
    for some in in_lists(sorted(keys)):
        await transaction.run(transaction.bind("end_periods", queue=queue_id, keys=some))


async def delete_expired_periods(database: Database, limit: int) -> int:
    """Delete up to ``limit`` periods that have ended. Return how many."""
    found = await database.rows_at(lambda now: database.queries.bind("expired_periods", now=now, limit=limit))
    by_queue: dict[int, list[bytes]] = grouped((queue_id, key) for queue_id, key in found)
    bind, now = database.queries.bind, database.now_ms()
    delete = [
        bind("delete_expired_periods", queue=queue_id, keys=sorted(keys), now=now)
        for queue_id, keys in sorted(by_queue.items())
    ]
    return sum(result.matched for result in await database.execute(*delete)) if delete else 0

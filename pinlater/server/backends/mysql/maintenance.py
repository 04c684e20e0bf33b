"""Changes of jobs without a worker: retries, deletions, expiry and collection.

Several servers may do this on one shard at once: each skips the jobs that another one is changing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import CLAIM_EXPIRED
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.batches import STEP_JOBS, change_in_steps
from pinlater.server.backends.mysql.call_results import ChangeQuota, change_once
from pinlater.server.backends.mysql.children import delete_children, forget, tell_parents_of
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.failure_groups import keep, put_in, take_out, take_out_revived
from pinlater.server.backends.mysql.keys import Keys, QueueKey, keep_rates, keys_of, let_next_through
from pinlater.server.backends.mysql.maintenance_probe import MaintenanceWork
from pinlater.server.backends.mysql.messages import delete_inboxes, delete_leftover_messages
from pinlater.server.backends.mysql.queries import MOST_LISTED, in_lists
from pinlater.server.backends.mysql.queues import MysqlQueues
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.mysql.unique_keys import end_periods
from pinlater.server.backends.records import Collected, Expired, Once
from pinlater.server.backends.search import Queue

_FIRST = -(2**63)

_INBOX_STEPS = 20
"""Most transactions in one call of the monitor that delete messages of deleted jobs."""


class DoomedJob(NamedTuple):
    """A job about to be deleted; ``messages`` is how many it has."""

    id: int
    key: bytes | None
    unique_key: bytes | None
    parent_id: int | None
    messages: int


class RetryOptions(NamedTuple):
    """How failed jobs are retried: their number of attempts, when they are due (None: now), and the idempotency key."""

    attempts: int
    run_after_ms: int | None
    once: Once


async def retry_failed(database: Database, queue: Queue, priority: int, options: RetryOptions, limit: int) -> int:
    """Retry up to ``limit`` failed jobs of a priority, oldest first: FAILED -> PENDING. Return how many."""

    async def retry(ids: Sequence[int], so_far: int) -> int:
        return await _retry(database, queue, {priority: ids}, options, ChangeQuota(options.once, limit, so_far))

    return await change_in_steps(_failed_pages(database, queue, priority, limit), retry, limit, nothing=())


async def _failed_pages(database: Database, queue: Queue, priority: int, limit: int) -> AsyncIterator[Sequence[int]]:
    """Yield pages of ids of FAILED jobs, oldest first."""
    page_size = min(limit, STEP_JOBS)
    local_id = run_after = _FIRST
    while page_size:
        find = database.queries.bind(
            "failed_jobs",
            queue=queue.id,
            priority=priority,
            after_run_after=run_after,
            after_id=local_id,
            limit=page_size,
        )
        rows = await database.rows(find)
        if rows:
            yield [row[0] for row in rows]
        if len(rows) < page_size:
            return
        local_id, run_after = rows[-1]


async def retry_jobs(database: Database, queue: Queue, jobs: Sequence[JobDescriptor], options: RetryOptions) -> int:
    """Retry those jobs that have failed: FAILED -> PENDING. Return how many."""
    return await _retry(database, queue, _by_priority(jobs), options, ChangeQuota(options.once))


async def _retry(
    database: Database,
    queue: Queue,
    ids_by_priority: Mapping[int, Sequence[int]],
    options: RetryOptions,
    quota: ChangeQuota,
) -> int:
    async def change(transaction: MysqlTransaction, left: int | None) -> int:
        run_after = transaction.now if options.run_after_ms is None else options.run_after_ms
        values = {"attempts": options.attempts, "run_after": run_after, "now": transaction.now, "queue": queue.id}
        changed = 0
        for priority, ids in ids_by_priority.items():
            changed += await _change(transaction, ids, "retry_jobs", most=left, priority=priority, **values)
        all_ids = sorted(chain.from_iterable(ids_by_priority.values()))
        for some in in_lists(all_ids):
            transaction.later(transaction.bind("insert_children_again", ids=some))
            take_out_revived(transaction, some)
        keys = await keys_of(transaction, all_ids)
        await keep_rates(transaction, keys)
        await let_next_through(transaction, keys)
        return changed

    return await change_once(database, quota, change)


async def schedule_jobs(
    database: Database, queue: Queue, jobs: Sequence[JobDescriptor], run_after_ms: int | None, once: Once
) -> int:
    """Make the jobs that are PENDING due at ``run_after_ms``; None: make the future ones due now. Return how many."""

    async def change(transaction: MysqlTransaction, _: int | None) -> int:
        run_after = transaction.now if run_after_ms is None else run_after_ms
        values = {"run_after": run_after, "is_put_off": run_after_ms is not None, "now": transaction.now}
        changed = await _change_by_priority(transaction, jobs, "schedule_jobs", queue=queue.id, **values)
        put_in(transaction, _ids_of(jobs))
        await _let_next_through(transaction, _ids_of(jobs))
        return changed

    return await change_once(database, ChangeQuota(once), change)


async def delete_ids(database: Database, queue: Queue, state: int, ids: Sequence[int], quota: ChangeQuota) -> int:
    """Delete those jobs that are still in a state. Return how many the call has deleted in all."""
    values = {"state": state, "queue": queue.id, "is_any": True, "priority": 0}

    async def change(transaction: MysqlTransaction, left: int | None) -> int:
        keys: Keys = {}
        changed = await _delete(transaction, ids, keys, most=left, **values)
        await let_next_through(transaction, keys)
        return changed

    return await change_once(database, quota, change)


async def delete_jobs(database: Database, queue: Queue, jobs: Sequence[JobDescriptor], state: int, once: Once) -> int:
    """Delete those jobs that are in a state. Return how many."""
    values = {"state": state, "queue": queue.id, "is_any": False}

    async def change(transaction: MysqlTransaction, _: int | None) -> int:
        keys: Keys = {}
        changed = 0
        for priority, ids in _by_priority(jobs).items():
            changed += await _delete(transaction, ids, keys, priority=priority, **values)
        await let_next_through(transaction, keys)
        return changed

    return await change_once(database, ChangeQuota(once), change)


async def reap_expired(
    database: Database, queues: MysqlQueues, asked_ms: int, limit: int, *, server_age_ms: int, quiet_ms: int
) -> list[Expired]:
    """End up to ``limit`` claims that had expired at ``asked_ms``: IN_PROGRESS -> PENDING or FAILED."""
    # While the database was down or full, no claim could be renewed, so holders get time, as after a server start.
    age_ms = int(min(server_age_ms, database.seconds_since_failure * 1000))
    values = {"age": age_ms, "quiet": quiet_ms, "limit": limit}

    def find_queues(now: int) -> bytes:
        return database.queries.bind("queues_of_expired_claims", now=min(asked_ms, now), **values)

    # Whatever may fail comes before the commit: a claim that has ended is reported only here.
    found = {queue_id for (queue_id,) in await database.rows_at(find_queues)}
    names = await queues.names_by_id() if found else {}
    await keep(database, ((queue_id, CLAIM_EXPIRED) for queue_id in found))

    async def change(transaction: MysqlTransaction) -> list[tuple[int, int]]:
        expired = await transaction.rows("expired_claims", now=min(asked_ms, transaction.now), **values)
        rows = [row for row in expired if row[1] in found]  # those of further queues are left for the next call
        ids = [row[0] for row in rows]
        await _change(transaction, ids, "expire_jobs", now=transaction.now, failure_group=CLAIM_EXPIRED.group)
        put_in(transaction, ids)
        children = [local_id for local_id, _, is_last, parent_id in rows if is_last and parent_id is not None]
        keys = await keys_of(transaction, ids)
        await let_next_through(transaction, keys | await tell_parents_of(transaction, children))
        return [(queue_id, is_last) for _, queue_id, is_last, _ in rows]

    ended = await database.change(change, is_repeatable=True) if found else []
    retried = Counter(queue_id for queue_id, is_last in ended if not is_last)
    failed = Counter(queue_id for queue_id, is_last in ended if is_last)
    return [
        Expired(names[queue_id], retried[queue_id], failed[queue_id])
        for queue_id in retried.keys() | failed.keys()
        if queue_id in names
    ]


async def collect_finished(
    database: Database, queues: MysqlQueues, work: MaintenanceWork, ttls_ms: tuple[int, int], limit: int
) -> list[Collected]:
    """Delete up to ``limit`` succeeded and as many failed jobs past their time to live, and jobs of deleted queues."""
    succeeded = await _collect(database, SUCCEEDED, work.succeeded, ttls_ms[0], limit)
    failed = await _collect(database, FAILED, work.failed, ttls_ms[1], limit)
    if work.deleted_inbox is not None:
        await delete_leftover_messages(database, _INBOX_STEPS)
    if work.deleted_queue is not None:
        for (queue_id,) in await database.rows(database.queries.bind("deleted_queues")):
            await _purge_deleted_queue(database, queue_id, limit)
    names = await queues.names_by_id() if succeeded or failed else {}
    return [
        Collected(names[queue_id], succeeded[queue_id], failed[queue_id])
        for queue_id in succeeded.keys() | failed.keys()
        if queue_id in names
    ]


async def _collect(database: Database, state: int, first_ms: int | None, ttl_ms: int, limit: int) -> Counter[int]:
    """Delete jobs of a state past their time to live; ``first_ms`` is when the first of them finished."""
    if first_ms is None or first_ms >= database.now_ms() - ttl_ms:
        return Counter()

    async def change(transaction: MysqlTransaction) -> Counter[int]:
        rows = await transaction.rows("finished_jobs", state=state, before=transaction.now - ttl_ms, limit=limit)
        delete_inboxes(transaction, {local_id: messages for local_id, _, messages, _ in rows if messages})
        if state == FAILED:
            take_out(transaction, [row[0] for row in rows])
            forget(transaction, ((parent_id, local_id) for local_id, _, _, parent_id in rows if parent_id is not None))
        await _change(transaction, [row[0] for row in rows], "delete_ids")
        return Counter(queue_id for _, queue_id, _, _ in rows)

    return await database.change(change, is_repeatable=True)


async def _purge_deleted_queue(database: Database, queue_id: int, limit: int) -> None:
    async def change(transaction: MysqlTransaction) -> None:
        ids = [row[0] for row in await transaction.rows("jobs_of_queue", queue=queue_id, limit=limit)]
        for some in in_lists(ids):
            rows = await transaction.rows("unlocked_jobs", ids=some)
            unlocked = [row[0] for row in rows]
            listed = [(local_id, state, parent_id) for local_id, state, parent_id, _ in rows if parent_id is not None]
            parents = {local_id: parent_id for local_id, state, parent_id in listed if state <= 1}
            forget(transaction, ((parent_id, local_id) for local_id, state, parent_id in listed if state > 1))
            await let_next_through(transaction, await delete_children(transaction, parents, set(unlocked)))
            delete_inboxes(transaction, {local_id: messages for local_id, _, _, messages in rows if messages})
            take_out(transaction, unlocked)
            await _change(transaction, unlocked, "delete_ids")
            await _change(transaction, unlocked, "delete_keyed_jobs")
        if not ids:
            await transaction.run(
                transaction.bind("delete_queue_settings", queue=queue_id),
                transaction.bind("delete_queue_lock", queue=queue_id),
                transaction.bind("delete_failure_groups_of_queue", queue=queue_id),
                transaction.bind("purge_queue", queue=queue_id),
            )

    await database.change(change, is_repeatable=True)


async def _let_next_through(transaction: MysqlTransaction, ids: Iterable[int]) -> None:
    await let_next_through(transaction, await keys_of(transaction, ids))


def _ids_of(jobs: Iterable[JobDescriptor]) -> list[int]:
    return [job.local_id for job in jobs]


def _by_priority(jobs: Sequence[JobDescriptor]) -> dict[int, list[int]]:
    ids: defaultdict[int, list[int]] = defaultdict(list)
    for job in jobs:
        ids[job.priority].append(job.local_id)
    return ids


async def _change_by_priority(
    transaction: MysqlTransaction, jobs: Sequence[JobDescriptor], name: str, **values: int
) -> int:
    """Run a statement for jobs, once per priority. Return how many it matched."""
    changed = 0
    for priority, ids in _by_priority(jobs).items():
        changed += await _change(transaction, ids, name, priority=priority, **values)
    return changed


async def _change(
    transaction: MysqlTransaction, ids: Sequence[int], name: str, *, most: int | None = None, **values: int
) -> int:
    """Run a statement for ids, in the given order, until it has matched ``most`` jobs. Return how many it matched.

    It may match fewer jobs than it is given, since other transactions change jobs. Each run locks its jobs in id order.
    """
    left, changed = sorted(ids) if most is None else list(ids), 0
    while left and (most is None or changed < most):
        size = MOST_LISTED if most is None else min(most - changed, MOST_LISTED)
        some, left = left[:size], left[size:]
        changed += (await transaction.run(transaction.bind(name, ids=sorted(some), **values)))[0].matched
    return changed


async def _delete(
    transaction: MysqlTransaction, ids: Sequence[int], keys: Keys, *, most: int | None = None, **values: int
) -> int:
    """Delete jobs that are in a state, up to ``most``, with all that belongs to them. Return how many.

    The ends of unfinished ones are reported to their parents, and end the periods of their unique keys.

    Args:
        transaction: deletes the jobs.
        ids: ids of the jobs.
        keys: receives the keys of the jobs, and of parents that are woken, for ``let_next_through``.
        most: most jobs to delete; None: all.
        values: further values for the ``doomed_jobs`` statement.
    """
    left, deleted = sorted(ids) if most is None else list(ids), 0
    while left and (most is None or deleted < most):
        size = MOST_LISTED if most is None else min(most - deleted, MOST_LISTED)
        some, left = sorted(left[:size]), left[size:]
        doomed = [
            DoomedJob(*row) for row in await transaction.rows("doomed_jobs", ids=some, **{"priority": 0} | values)
        ]
        keys |= {job.id: QueueKey(values["queue"], job.key) for job in doomed if job.key is not None}
        parents = {job.id: job.parent_id for job in doomed if job.parent_id is not None}
        if values["state"] in {PENDING, IN_PROGRESS}:
            await end_periods(transaction, values["queue"], [job.unique_key for job in doomed if job.unique_key])
            keys |= await delete_children(transaction, parents, {job.id for job in doomed})
        else:
            forget(transaction, ((parent_id, local_id) for local_id, parent_id in parents.items()))
        delete_inboxes(transaction, {job.id: job.messages for job in doomed if job.messages})
        if values["state"] in {PENDING, FAILED}:
            take_out(transaction, [job.id for job in doomed])
        deleted += await _change(transaction, [job.id for job in doomed], "delete_ids")
    return deleted

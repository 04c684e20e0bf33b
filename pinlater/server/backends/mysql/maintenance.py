"""Changes of jobs without a worker: retries, deletions, expiry and collection.

Several servers may do this on one shard at once: each skips the jobs that another one is changing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import CLAIM_EXPIRED
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.batches import STEP_JOBS, change_in_steps
from pinlater.server.backends.grouping import grouped
from pinlater.server.backends.key_rates import IDLE_MS
from pinlater.server.backends.mysql import call_results, failure_groups
from pinlater.server.backends.mysql.call_results import ChangeQuota, change_once
from pinlater.server.backends.mysql.children import delete_children, forget, tell_parents_of
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.failure_groups import keep, put_in, take_out, take_out_revived
from pinlater.server.backends.mysql.keys import Keys, QueueKey, forget_rates, keep_rates, keys_of, let_next_through
from pinlater.server.backends.mysql.maintenance_probe import MaintenanceProbe
from pinlater.server.backends.mysql.messages import delete_inboxes, delete_leftover_messages
from pinlater.server.backends.mysql.queries import MOST_LISTED, in_lists
from pinlater.server.backends.mysql.queue_claims import QueueClaims
from pinlater.server.backends.mysql.reads import MysqlReads, matching_ids
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.mysql.unique_keys import delete_expired_periods, end_periods
from pinlater.server.backends.records import Collected, Expired, JobFilter, Once
from pinlater.server.backends.search import Queue
from pinlater.server.clock import milliseconds_since

_FIRST = -(2**63)

_INBOX_STEPS = 20
"""Most transactions in one call of the monitor that delete messages of deleted jobs."""


_QUEUE_SETTINGS = ("bucket", "claims", "lock")
"""What a queue may have in the table of settings."""


class DoomedJob(NamedTuple):
    """A job about to be deleted; ``messages`` is how many it has."""

    id: int
    key: bytes | None
    unique_key: bytes | None
    parent_id: int | None
    messages: int


class MysqlMaintenance(MysqlReads):
    """The part of a shard that changes jobs for operators and for the monitor."""

    _claims: QueueClaims
    _probe: MaintenanceProbe

    async def retry_failed_jobs(
        self, queue: str, priority: int, attempts: int, run_after_ms: int | None, limit: int, *, once: Once = None
    ) -> int:
        at = await self._queues.get(queue)

        async def retry(ids: Sequence[int], so_far: int) -> int:
            quota = ChangeQuota(once, limit, so_far)
            return await self._retry(at, {priority: ids}, attempts, run_after_ms, quota)

        return await change_in_steps(_failed_pages(self._database, at, priority, limit), retry, limit, nothing=())

    async def retry_these_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], attempts: int, run_after_ms: int | None, *, once: Once = None
    ) -> int:
        at = await self._queues.get(queue)
        return await self._retry(at, _by_priority(jobs), attempts, run_after_ms, ChangeQuota(once))

    async def _retry(
        self,
        at: Queue,
        ids_by_priority: Mapping[int, Sequence[int]],
        attempts: int,
        run_after_ms: int | None,
        quota: ChangeQuota,
    ) -> int:
        async def change(transaction: MysqlTransaction, left: int | None) -> int:
            run_after = transaction.now if run_after_ms is None else run_after_ms
            values = {"attempts": attempts, "run_after": run_after, "now": transaction.now, "queue": at.id}
            changed = 0
            for priority, ids in ids_by_priority.items():
                changed += await _change(transaction, ids, "retry_jobs", most=left, priority=priority, **values)
            all_ids = sorted(chain.from_iterable(ids_by_priority.values()))
            for some in in_lists(all_ids):
                transaction.later(transaction.bind("insert_children_again", ids=some))
                take_out_revived(transaction, some)
            keys = await keys_of(transaction, all_ids)
            transaction.later(*keep_rates(transaction, keys))
            await let_next_through(transaction, keys)
            return changed

        moved = await change_once(self._database, quota, change)
        self._claims.restart_scans(at.id)
        return moved

    async def schedule_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], run_after_ms: int | None, *, once: Once = None
    ) -> int:
        at, ids = await self._queues.get(queue), [job.local_id for job in jobs]

        async def change(transaction: MysqlTransaction, _: int | None) -> int:
            run_after = transaction.now if run_after_ms is None else run_after_ms
            values = {"run_after": run_after, "is_put_off": run_after_ms is not None, "now": transaction.now}
            changed = 0
            for priority, some in _by_priority(jobs).items():
                changed += await _change(transaction, some, "schedule_jobs", priority=priority, queue=at.id, **values)
            put_in(transaction, ids)
            await let_next_through(transaction, await keys_of(transaction, ids))
            return changed

        moved = await change_once(self._database, ChangeQuota(once), change)
        self._claims.restart_scans(at.id)
        return moved

    async def delete_jobs(self, queue: str, which: JobFilter, limit: int, *, once: Once = None) -> int:
        search = await self._search(queue, which)
        pattern = await asyncio.to_thread(search.pattern)
        values = {"state": which.state, "queue": search.queue.id, "is_any": True, "priority": 0}

        async def delete(ids: Sequence[int], so_far: int) -> int:
            async def change(transaction: MysqlTransaction, left: int | None) -> int:
                keys: Keys = {}
                changed = await _delete(transaction, ids, keys, most=left, **values)
                await let_next_through(transaction, keys)
                return changed

            return await change_once(self._database, ChangeQuota(once, limit, so_far), change)

        found = matching_ids(self._database, search, pattern, limit)
        return await change_in_steps(found, delete, limit, nothing=[], pattern=pattern)

    async def delete_these_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], state: int, *, once: Once = None
    ) -> int:
        at = await self._queues.get(queue)

        async def change(transaction: MysqlTransaction, _: int | None) -> int:
            keys: Keys = {}
            changed = 0
            for priority, ids in _by_priority(jobs).items():
                values = {"state": state, "queue": at.id, "is_any": False, "priority": priority}
                changed += await _delete(transaction, ids, keys, **values)
            await let_next_through(transaction, keys)
            return changed

        return await change_once(self._database, ChangeQuota(once), change)

    async def reap_expired(
        self, limit: int, *, server_age_ms: int, quiet_ms: int, asked_at: float | None = None
    ) -> list[Expired]:
        database, asked_ms = self._database, self._database.now_ms() - milliseconds_since(asked_at)
        if not database.is_past((await self._probe.find()).claim_expires):
            return []
        # While the database was down or full, no claim could be renewed, so holders get time, as after a server start.
        age_ms = int(min(server_age_ms, database.seconds_since_failure * 1000))
        values = {"age": age_ms, "quiet": quiet_ms, "limit": limit}
        with database.noting_refusals():
            return await self._reap(asked_ms, values)

    async def _reap(self, asked_ms: int, values: Mapping[str, int]) -> list[Expired]:
        """End claims that had expired at ``asked_ms``: IN_PROGRESS -> PENDING or FAILED."""
        database = self._database

        def find_queues(now: int) -> bytes:
            return database.queries.bind("queues_of_expired_claims", now=min(asked_ms, now), **values)

        # Whatever may fail comes before the commit: a claim that has ended is reported only here.
        found = {queue_id for (queue_id,) in await database.rows_at(find_queues)}
        names = await self._queues.names_by_id() if found else {}
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

    async def collect_finished(self, succeeded_ttl_ms: int, failed_ttl_ms: int, limit: int) -> list[Collected]:
        database, work = self._database, await self._probe.find()
        succeeded = await _collect(database, SUCCEEDED, work.succeeded, succeeded_ttl_ms, limit)
        failed = await _collect(database, FAILED, work.failed, failed_ttl_ms, limit)
        if work.deleted_inbox is not None:
            await delete_leftover_messages(database, _INBOX_STEPS)
        if work.deleted_queue is not None:
            for (queue_id,) in await database.rows(database.queries.bind("deleted_queues")):
                await _purge_deleted_queue(database, queue_id, limit)
        names = await self._queues.names_by_id() if succeeded or failed else {}
        return [
            Collected(names[queue_id], succeeded[queue_id], failed[queue_id])
            for queue_id in succeeded.keys() | failed.keys()
            if queue_id in names
        ]

    async def forget_results(self, limit: int) -> int:
        work, database = await self._probe.find(), self._database
        results = await call_results.delete_expired(database, limit) if database.is_past(work.result_expires) else 0
        periods = await delete_expired_periods(database, limit) if database.is_past(work.period_ends) else 0
        groups = await failure_groups.forget(database, limit) if database.is_past(work.failure_group) else 0
        rates = 0
        if work.key_rate is not None and database.is_past(work.key_rate // 1000 + IDLE_MS):
            rates = await forget_rates(database, limit)
        return results + periods + groups + rates


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
                *(transaction.bind("delete_setting", name=f"{kind} of queue {queue_id}") for kind in _QUEUE_SETTINGS),
                transaction.bind("delete_failure_groups_of_queue", queue=queue_id),
                transaction.bind("purge_queue", queue=queue_id),
            )

    await database.change(change, is_repeatable=True)


def _by_priority(jobs: Sequence[JobDescriptor]) -> dict[int, list[int]]:
    return grouped((job.priority, job.local_id) for job in jobs)


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

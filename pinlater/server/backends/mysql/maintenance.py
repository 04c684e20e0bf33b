"""What happens to jobs without a worker: retries and deletions by hand, expiry, collection.

Several servers look after one shard: what one is working on, the others skip.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import FAILED, SUCCEEDED
from pinlater.server.backends.batches import STEP_JOBS, change_in_steps
from pinlater.server.backends.mysql.call_results import Count, count_once
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.queues import Queues
from pinlater.server.backends.mysql.transaction import Transaction
from pinlater.server.backends.records import Collected, Expired, IdempotencyKey
from pinlater.server.backends.search import Queue

_IDS_AT_ONCE = 5000
_FIRST = -(2**63)


class Upkeep:
    """Changes many jobs at once.

    Args:
        database: of the shard.
        queues: of the shard.
    """

    def __init__(self, database: Database, queues: Queues) -> None:
        self._database = database
        self._queues = queues

    async def retry(
        self,
        queue: Queue,
        priority: int,
        attempts: int,
        run_after_ms: int | None,
        limit: int,
        *,
        once: IdempotencyKey | None,
    ) -> int:
        """FAILED -> PENDING; return how many."""

        async def move(ids: Sequence[int], so_far: int) -> int:
            return await self._retry(queue, {priority: ids}, attempts, run_after_ms, Count(once, limit, so_far))

        return await change_in_steps(self._failed(queue, priority, limit), move, limit, nothing=())

    async def _failed(self, queue: Queue, priority: int, limit: int) -> AsyncIterator[Sequence[int]]:
        """Yield ids of FAILED jobs, the oldest first, some at a time."""
        at_once = min(limit, STEP_JOBS)
        local_id = run_after = _FIRST
        while at_once:
            find = self._database.queries.bind(
                "failed_jobs",
                queue=queue.id,
                priority=priority,
                after_run_after=run_after,
                after_id=local_id,
                limit=at_once,
            )
            rows = await self._database.rows(find)
            if rows:
                yield [row[0] for row in rows]
            if len(rows) < at_once:
                return
            local_id, run_after = rows[-1]

    async def retry_these(
        self,
        queue: Queue,
        jobs: Sequence[JobDescriptor],
        attempts: int,
        run_after_ms: int | None,
        once: IdempotencyKey | None,
    ) -> int:
        """Those of the jobs that are FAILED -> PENDING; return how many."""
        return await self._retry(queue, _by_priority(jobs), attempts, run_after_ms, Count(once))

    async def _retry(
        self, queue: Queue, ids: Mapping[int, Sequence[int]], attempts: int, run_after_ms: int | None, count: Count
    ) -> int:
        """Move jobs, by priority, as far as they are FAILED; return how many the call has moved."""

        async def work(transaction: Transaction, left: int | None) -> int:
            run_after = transaction.now if run_after_ms is None else run_after_ms
            values = {"attempts": attempts, "run_after": run_after, "now": transaction.now, "queue": queue.id}
            changed = 0
            for priority, some in ids.items():
                changed += await _change(transaction, some, "retry_jobs", most=left, priority=priority, **values)
            return changed

        return await count_once(self._database, count, work)

    async def run_now(self, queue: Queue, jobs: Sequence[JobDescriptor], once: IdempotencyKey | None) -> int:
        """Those of the jobs that are PENDING and not due -> due now; return how many."""

        async def work(transaction: Transaction, _: int | None) -> int:
            values = {"now": transaction.now, "queue": queue.id}
            return await _change_by_priority(transaction, jobs, "run_jobs_now", **values)

        return await count_once(self._database, Count(once), work)

    async def delete(self, queue: Queue, state: int, ids: Sequence[int], count: Count) -> int:
        """Remove the given jobs, as far as they are still in that state; return how many the call has removed."""

        async def work(transaction: Transaction, left: int | None) -> int:
            return await _change(
                transaction, ids, "delete_jobs", most=left, state=state, queue=queue.id, is_any=True, priority=0
            )

        return await count_once(self._database, count, work)

    async def delete_these(
        self, queue: Queue, jobs: Sequence[JobDescriptor], state: int, once: IdempotencyKey | None
    ) -> int:
        """Remove those of the jobs that are in that state; return how many."""

        async def work(transaction: Transaction, _: int | None) -> int:
            values = {"state": state, "queue": queue.id, "is_any": False}
            return await _change_by_priority(transaction, jobs, "delete_jobs", **values)

        return await count_once(self._database, Count(once), work)

    async def reap(self, asked_ms: int, limit: int, server_age_ms: int, quiet_ms: int) -> list[Expired]:
        """End claims that had expired when that was asked for."""
        # While the database was away, nobody could renew a claim: as after a start of the server, they get time to.
        age_ms = int(min(server_age_ms, self._database.seconds_since_failure * 1000))

        async def work(transaction: Transaction) -> list[tuple[int, int]]:
            rows = await transaction.rows(
                "expired_claims", now=min(asked_ms, transaction.now), age=age_ms, quiet=quiet_ms, limit=limit
            )
            await _change(transaction, [row[0] for row in rows], "expire_jobs", now=transaction.now)
            return [(queue_id, remaining) for _, queue_id, remaining in rows]

        ended = await self._database.change(work, is_repeatable=True)
        retried = Counter(queue_id for queue_id, remaining in ended if remaining > 1)
        failed = Counter(queue_id for queue_id, remaining in ended if remaining <= 1)
        names = await self._queues.by_id() if ended else {}
        return [
            Expired(names[queue_id], retried[queue_id], failed[queue_id])
            for queue_id in retried.keys() | failed.keys()
            if queue_id in names
        ]

    async def collect(self, succeeded_ttl_ms: int, failed_ttl_ms: int, limit: int) -> list[Collected]:
        """Remove what has been finished for long enough, and some jobs of deleted queues."""
        succeeded = await self._collect(SUCCEEDED, succeeded_ttl_ms, limit)
        failed = await self._collect(FAILED, failed_ttl_ms, limit)
        await self._sweep(limit)
        names = await self._queues.by_id() if succeeded or failed else {}
        return [
            Collected(names[queue_id], succeeded[queue_id], failed[queue_id])
            for queue_id in succeeded.keys() | failed.keys()
            if queue_id in names
        ]

    async def _collect(self, state: int, ttl_ms: int, limit: int) -> Counter[int]:
        async def work(transaction: Transaction) -> Counter[int]:
            rows = await transaction.rows("finished_jobs", state=state, before=transaction.now - ttl_ms, limit=limit)
            await _change(transaction, [row[0] for row in rows], "remove_jobs")
            return Counter(queue_id for _, queue_id in rows)

        return await self._database.change(work, is_repeatable=True)

    async def _sweep(self, limit: int) -> None:
        for (queue_id,) in await self._database.rows(self._database.queries.bind("deleted_queues")):
            await self._sweep_one(queue_id, limit)

    async def _sweep_one(self, queue_id: int, limit: int) -> None:
        async def work(transaction: Transaction) -> None:
            ids = [row[0] for row in await transaction.rows("jobs_of_queue", queue=queue_id, limit=limit)]
            for some in _portions(ids):
                free = [row[0] for row in await transaction.rows("free_jobs", ids=some)]
                await _change(transaction, free, "remove_jobs")
            if not ids:
                await transaction.run(
                    transaction.bind("forget_settings", queue=queue_id),
                    transaction.bind("forget_queue_lock", queue=queue_id),
                    transaction.bind("forget_queue", queue=queue_id),
                )

        await self._database.change(work, is_repeatable=True)


def _by_priority(jobs: Sequence[JobDescriptor]) -> dict[int, list[int]]:
    ids: defaultdict[int, list[int]] = defaultdict(list)
    for job in jobs:
        ids[job.priority].append(job.local_id)
    return ids


async def _change_by_priority(transaction: Transaction, jobs: Sequence[JobDescriptor], name: str, **values: int) -> int:
    """Run a statement for jobs; return how many it matched."""
    changed = 0
    for priority, ids in _by_priority(jobs).items():
        changed += await _change(transaction, ids, name, priority=priority, **values)
    return changed


async def _change(
    transaction: Transaction, ids: Sequence[int], name: str, *, most: int | None = None, **values: int
) -> int:
    """Run a statement for the ids until it has matched so many jobs, the first ones; return how many it matched.

    Others may have changed some of them. Jobs are locked in the order of their ids.
    """
    left, changed = sorted(ids) if most is None else list(ids), 0
    while left and (most is None or changed < most):
        at_once = _IDS_AT_ONCE if most is None else min(most - changed, _IDS_AT_ONCE)
        some, left = left[:at_once], left[at_once:]
        changed += (await transaction.run(transaction.bind(name, ids=sorted(some), **values)))[0].matched
    return changed


def _portions(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(ids), _IDS_AT_ONCE):
        yield ids[start : start + _IDS_AT_ONCE]

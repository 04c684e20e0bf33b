"""What happens to jobs without a worker: retries and deletions by hand, expiry, collection.

Several servers look after one shard: what one is working on, the others skip.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from pinlater.descriptor import JobDescriptor
from pinlater.server.backends.contract import Collected, Expired, IdempotencyKey
from pinlater.server.backends.mysql.call_results import Count, count_once
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.queues import Queues
from pinlater.server.backends.mysql.transaction import Transaction
from pinlater.server.backends.search import Queue
from pinlater.wire.messages import FAILED, SUCCEEDED

_IDS_AT_ONCE = 5000


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
        moved = 0
        async with self._database.within_time():
            while True:
                wanted = limit - moved
                find = self._database.queries.bind("failed_jobs", queue=queue.id, priority=priority, limit=wanted)
                found = [row[0] for row in await self._database.rows(find)]
                count = Count(once, limit, moved)
                moved = await self._retry(queue, {priority: found}, attempts, run_after_ms, count)
                if moved >= limit or len(found) < wanted:
                    return moved
                # Somebody else was quicker with some of them, and there may be more.

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
                changed += await _change(transaction, some[:left], "retry_jobs", priority=priority, **values)
            return changed

        return await count_once(self._database, count, work)

    async def delete(
        self, queue: Queue, state: int, ids: Sequence[int], limit: int, once: IdempotencyKey | None
    ) -> int:
        """Remove the given jobs, as far as they are still in that state, up to a number; return how many."""

        async def work(transaction: Transaction, left: int | None) -> int:
            return await _change(
                transaction, ids[:left], "delete_jobs", state=state, queue=queue.id, is_any=True, priority=0
            )

        return await count_once(self._database, Count(once, limit), work)

    async def delete_these(
        self, queue: Queue, jobs: Sequence[JobDescriptor], state: int, once: IdempotencyKey | None
    ) -> int:
        """Remove those of the jobs that are in that state; return how many."""

        async def work(transaction: Transaction, _: int | None) -> int:
            changed = 0
            for priority, ids in _by_priority(jobs).items():
                changed += await _change(
                    transaction, ids, "delete_jobs", state=state, queue=queue.id, is_any=False, priority=priority
                )
            return changed

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
                    transaction.bind("forget_turn", queue=queue_id),
                    transaction.bind("forget_queue", queue=queue_id),
                )

        await self._database.change(work, is_repeatable=True)


def _by_priority(jobs: Sequence[JobDescriptor]) -> dict[int, list[int]]:
    ids: defaultdict[int, list[int]] = defaultdict(list)
    for job in jobs:
        ids[job.priority].append(job.local_id)
    return ids


async def _change(transaction: Transaction, ids: Sequence[int], name: str, **values: int) -> int:
    """Run a statement for the ids, in their order; return how many jobs it matched."""
    changed = 0
    for some in _portions(sorted(ids)):
        changed += (await transaction.run(transaction.bind(name, ids=some, **values)))[0].matched
    return changed


def _portions(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(ids), _IDS_AT_ONCE):
        yield ids[start : start + _IDS_AT_ONCE]

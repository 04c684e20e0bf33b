"""A shard in a MySQL or MariaDB database: verbs go to lanes, reads and the rest to connections of their own."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeVar

from pinlater.errors import QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import PENDING
from pinlater.server.backends.batches import change_in_steps
from pinlater.server.backends.job_notifications import JobNotifications
from pinlater.server.backends.mysql import call_results
from pinlater.server.backends.mysql.ack import AckRequest, Settler
from pinlater.server.backends.mysql.buckets import Buckets
from pinlater.server.backends.mysql.checkpoint import Checkpointer, CheckpointRequest
from pinlater.server.backends.mysql.claim import MOST_JOBS, Claimer, ClaimRequest
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.enqueue import Storer, StoreRequest, enqueue, import_
from pinlater.server.backends.mysql.group_commit import Lane
from pinlater.server.backends.mysql.maintenance import Upkeep
from pinlater.server.backends.mysql.orphaned_claims import LostClaims
from pinlater.server.backends.mysql.pool import Pool
from pinlater.server.backends.mysql.queries import Queries
from pinlater.server.backends.mysql.queue_locks import QueueLocks
from pinlater.server.backends.mysql.queues import Queues, not_found
from pinlater.server.backends.mysql.reads import Looker
from pinlater.server.backends.mysql.reports import Reports
from pinlater.server.backends.records import (
    MAX_ANSWER_BYTES,
    Ack,
    Checkpoint,
    Claim,
    ClaimedJob,
    Collected,
    CommitStats,
    Dequeued,
    Expired,
    IdempotencyKey,
    JobFilter,
    JobRecord,
    KeptReport,
    NewJob,
    Page,
    Position,
    QueueChange,
    QueueSettings,
    Settled,
    StoreSize,
)
from pinlater.server.backends.search import JobSearch, Queue
from pinlater.server.backends.sharded import CallResult, DuePriorities, earliest_by_queue
from pinlater.server.backends.token_bucket import Tokens

_T = TypeVar("_T")


class Options(NamedTuple):
    """What all shards of a store have in common.

    Attributes:
        priority_levels: priorities are 1 to this.
        now_ms: the time, for tests; None: that of each database, which is the same for all that use it.
        count_limit: counts stop at this number per priority.
        regex_seconds: time for the body patterns of one call.
        on_commit: is told of each transaction.
        notifications: are told of jobs that were given back.
    """

    priority_levels: int
    now_ms: Callable[[], int] | None = None
    count_limit: int = 100_000
    regex_seconds: float = 2.0
    on_commit: Callable[[CommitStats], None] = lambda _: None
    notifications: JobNotifications | None = None


class MysqlShard:
    """Jobs in one database.

    Args:
        name: of the shard.
        pool: connections to its server.
        database: name of its database; it is made when missing.
        options: of the store.
        on_close: lets go of the pool.
    """

    def __init__(
        self, name: str, pool: Pool, database: str, options: Options, on_close: Callable[[], None] = lambda: None
    ) -> None:
        self.name = name
        self._options = options
        self._on_close = on_close
        self._pool = pool
        self._database = Database(name, pool, Queries(database), options.now_ms)
        self._queues = Queues(self._database, options.priority_levels)
        self._looker = Looker(self._database)
        self._reports = Reports(self._database)
        self._buckets = Buckets(self._database)
        self._queue_locks = QueueLocks(self._database)
        self._upkeep = Upkeep(self._database, self._queues)
        self._checkpointer = Checkpointer(self._database)
        self._stores = Lane(name, Storer(self._database).store, on_commit=options.on_commit)
        self._acks = Lane(
            name,
            Settler(self._database).settle,
            on_commit=options.on_commit,
            most_weight=20_000,
            is_repeatable=attrgetter("is_repeatable"),
        )
        self._checkpoints = Lane(
            name,
            self._checkpointer.checkpoint,
            on_commit=options.on_commit,
            is_repeatable=attrgetter("is_repeatable"),
        )
        self._notifications = options.notifications or JobNotifications()
        self._lost = LostClaims(self._database, options.on_commit, self._returned)
        # By queue and the priorities that are claimed.
        self._claimers: defaultdict[int, dict[int, Claimer]] = defaultdict(dict)
        self._claims: dict[tuple[int, int], Lane[ClaimRequest, Dequeued]] = {}

    @property
    def _lanes(self) -> list[Lane[object, object]]:
        return [self._stores, self._acks, self._checkpoints, *self._claims.values()]  # type: ignore[list-item]

    @property
    def waiting(self) -> int:
        """Write requests that have no result yet."""
        return sum(lane.waiting for lane in self._lanes)

    @property
    def connections(self) -> int:
        """Open connections to its server, which all shards on it share."""
        return self._pool.connections

    async def ping(self) -> None:
        await self._database.read(lambda connection: connection.run(b"SELECT 1"))

    async def size(self) -> StoreSize:
        return await self._looker.size()

    async def read_clock(self) -> float:
        return await self._database.read(self._database.read_clock)

    # Queues

    async def create_queue(self, queue: str) -> None:
        await self._queues.create(queue)

    async def delete_queue(self, queue: str) -> None:
        await self._queues.delete(queue)

    async def queue_names(self) -> set[str]:
        return set(await self._queues.all())

    async def queue_settings(self) -> dict[str, QueueSettings]:
        return await self._queues.settings()

    async def change_queue_settings(self, queue: str, change: QueueChange) -> None:
        await self._queues.change_settings(queue, change)

    # The life of jobs

    async def enqueue_jobs(
        self, queue: str, jobs: Sequence[NewJob], *, once: IdempotencyKey | None = None
    ) -> list[str]:
        return await self._in(queue, lambda at: self._store(enqueue(at, jobs, once)))

    async def import_jobs(
        self, queue: str, jobs: Sequence[JobRecord], *, once: IdempotencyKey | None = None
    ) -> list[str]:
        return await self._in(queue, lambda at: self._store(import_(at, jobs, once)))

    async def call_result(self, queue: str, key: bytes) -> CallResult | None:
        await self._queues.named(queue)
        return await call_results.look_up(self._database, key)

    async def _in(self, queue: str, call: Callable[[Queue], Awaitable[_T]]) -> _T:
        """Make a call that finds out by itself that its queue is gone: another server may have made it anew."""
        at = await self._queues.named(queue)
        try:
            return await call(at)
        except QueueNotFound:
            self._queues.forget(queue)
            return await call(await self._queues.named(queue))

    async def _store(self, request: StoreRequest) -> list[str]:
        if not request.jobs:
            return []
        names = await self._stores.submit(request, request.weight)
        if any(job.run_after_ms is not None for job in request.jobs):
            self._look_anew(request.queue)
        return names

    async def dequeue_jobs(
        self,
        queue: str,
        limit: int,
        claim: Claim,
        *,
        max_bytes: int = MAX_ANSWER_BYTES,
        want_next_due: bool = False,
        max_running: int | None = None,
        levels: int | None = None,
    ) -> Dequeued:
        request = ClaimRequest(limit, max_bytes, claim.descriptor.encode(), claim.lease_ms, want_next_due, max_running)
        return await self._in(queue, lambda at: self._claim(at._replace(prefixes=at.prefixes[:levels]), request))

    async def _claim(self, at: Queue, request: ClaimRequest) -> Dequeued:
        claiming = self._claims_of(at).submit(request, request.limit)
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            claiming.add_done_callback(lambda done: self._give_back(at, request, done))
            raise

    def _give_back(self, at: Queue, request: ClaimRequest, claimed: asyncio.Future[Dequeued]) -> None:
        """Return what was claimed for somebody who is gone, no attempt spent."""
        if not claimed.cancelled() and claimed.exception() is None and claimed.result().jobs:
            ids = [JobDescriptor.parse(job.descriptor).local_id for job in claimed.result().jobs]
            self._lost.add(at, request.claim, ids)

    def _returned(self, queue: Queue) -> None:
        """Take note of jobs that were given back."""
        self._look_anew(queue)
        self._notifications.on_job(queue.name, None)

    def _claims_of(self, queue: Queue) -> Lane[ClaimRequest, Dequeued]:
        key = (queue.id, len(queue.prefixes))
        lane = self._claims.get(key)
        if lane is None:
            claimer = self._claimers[queue.id][len(queue.prefixes)] = Claimer(self._database, queue, self._lost)
            lane = Lane(
                self.name,
                claimer.claim,
                most_weight=MOST_JOBS,
                on_commit=self._options.on_commit,
                is_repeatable=lambda _: False,
            )
            self._claims[key] = lane
        return lane

    def _look_anew(self, queue: Queue) -> None:
        """Jobs may have come before those that are claimed next."""
        for claimer in self._claimers.get(queue.id, {}).values():
            claimer.floors.forget()

    async def acquire_tokens(self, queue: str, rate: float, wanted: int) -> Tokens:
        return await self._in(queue, lambda at: self._buckets.take(at, rate, wanted))

    async def due_priorities(self, queue: str) -> DuePriorities:
        dues = (await self._looker.first_due([queue], self._options.priority_levels)).get(queue)
        if dues is None:
            raise not_found(queue)
        return DuePriorities.at(self._database.now_ms(), dues)

    async def lock_queue(self, queue: str, milliseconds: int) -> int | None:
        return await self._in(queue, lambda at: self._queue_locks.lock(at, milliseconds))

    async def unlock_queue(self, queue: str, token: int) -> None:
        await self._in(queue, lambda at: self._queue_locks.unlock(at, token))

    async def peek_jobs(self, queue: str, limit: int, *, max_bytes: int = MAX_ANSWER_BYTES) -> list[ClaimedJob]:
        at = await self._queues.named(queue)
        return await self._looker.peek(at, limit, max_bytes)

    async def ack_dequeued_jobs(self, queue: str, succeeded: Sequence[Ack], failed: Sequence[Ack]) -> Settled:
        request = AckRequest(await self._queues.named(queue), succeeded, failed)
        return await self._acks.submit(request, len(succeeded) + len(failed))

    async def checkpoint_jobs(self, queue: str, checkpoints: Sequence[Checkpoint]) -> Settled:
        request = CheckpointRequest(await self._queues.named(queue), checkpoints)
        settled = await self._checkpoints.submit(request, request.weight)
        if settled.due_ms is not None:
            self._look_anew(request.queue)
        return settled._replace(lost=await self._checkpointer.lost(request)) if settled.stale else settled

    async def release_claims(self, queue: str, source: str) -> int:
        at = await self._queues.named(queue)
        released = await self._checkpointer.release(at, source)
        self._look_anew(at)
        return released

    # Looking

    async def lookup_jobs(self, jobs: Sequence[JobDescriptor], *, include_body: bool) -> list[JobRecord | None]:
        queues = await self._queues.find([job.queue for job in jobs])
        return await self._looker.lookup(queues, jobs, include_body=include_body)

    async def count_jobs(self, queue: str, which: JobFilter) -> int:
        search = await self._search(queue, which)
        return await self._looker.count(search, self._options.count_limit)

    async def oldest_due_ms(self, queue: str) -> int | None:
        return await self._looker.oldest_due(await self._search(queue, JobFilter(PENDING)))

    async def first_due(self, queues: Sequence[str]) -> dict[str, int | None]:
        return earliest_by_queue(await self._looker.first_due(queues, self._options.priority_levels))

    async def scan_jobs(self, queue: str, which: JobFilter, limit: int, position: Position | None) -> Page:
        return await self._looker.scan(await self._search(queue, which), limit, position)

    async def _search(self, queue: str, which: JobFilter) -> JobSearch:
        at = await self._queues.named(queue)
        return JobSearch(at, which, self._database.now_ms(), self._options.regex_seconds)

    # By hand and by the monitor

    async def retry_failed_jobs(
        self,
        queue: str,
        priority: int,
        attempts: int,
        run_after_ms: int | None,
        limit: int,
        *,
        once: IdempotencyKey | None = None,
    ) -> int:
        at = await self._queues.named(queue)
        moved = await self._upkeep.retry(at, priority, attempts, run_after_ms, limit, once=once)
        self._look_anew(at)
        return moved

    async def delete_jobs(self, queue: str, which: JobFilter, limit: int, *, once: IdempotencyKey | None = None) -> int:
        search = await self._search(queue, which)
        pattern = await asyncio.to_thread(search.pattern)

        async def delete(ids: Sequence[int], so_far: int) -> int:
            return await self._upkeep.delete(search.queue, which.state, ids, call_results.Count(once, limit, so_far))

        found = self._looker.ids_of(search, pattern, limit)
        return await change_in_steps(found, delete, limit, nothing=[], pattern=pattern)

    async def retry_these_jobs(
        self,
        queue: str,
        jobs: Sequence[JobDescriptor],
        attempts: int,
        run_after_ms: int | None,
        *,
        once: IdempotencyKey | None = None,
    ) -> int:
        at = await self._queues.named(queue)
        moved = await self._upkeep.retry_these(at, jobs, attempts, run_after_ms, once)
        self._look_anew(at)
        return moved

    async def run_jobs_now(
        self, queue: str, jobs: Sequence[JobDescriptor], *, once: IdempotencyKey | None = None
    ) -> int:
        at = await self._queues.named(queue)
        moved = await self._upkeep.run_now(at, jobs, once)
        self._look_anew(at)
        return moved

    async def delete_these_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], state: int, *, once: IdempotencyKey | None = None
    ) -> int:
        return await self._upkeep.delete_these(await self._queues.named(queue), jobs, state, once)

    async def reap_expired(self, limit: int, *, server_age_ms: int, quiet_ms: int) -> list[Expired]:
        return await self._upkeep.reap(self._database.now_ms(), limit, server_age_ms, quiet_ms)

    async def collect_finished(self, succeeded_ttl_ms: int, failed_ttl_ms: int, limit: int) -> list[Collected]:
        return await self._upkeep.collect(succeeded_ttl_ms, failed_ttl_ms, limit)

    async def forget_results(self, limit: int) -> int:
        return await call_results.forget(self._database, limit)

    async def store_report(self, worker_id: str, report: bytes, keep_ms: int) -> None:
        await self._reports.keep(worker_id, report, keep_ms)

    async def reports(self, max_bytes: int = MAX_ANSWER_BYTES) -> list[KeptReport]:
        return await self._reports.read(max_bytes)

    async def close(self) -> None:
        await asyncio.gather(*(lane.finish() for lane in self._lanes))
        await self._lost.close()
        self._on_close()

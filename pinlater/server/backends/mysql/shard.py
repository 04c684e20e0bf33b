"""A shard in a MySQL or MariaDB database: enqueues, claims, acks and checkpoints are committed in groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from operator import attrgetter
from typing import TypeVar

from pinlater.errors import QueueNotFound
from pinlater.model.attempts import StoredAck, StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobRecord, NewJob
from pinlater.model.queues import QueueChange, QueueSettings
from pinlater.server.backends.grouping import grouped
from pinlater.server.backends.job_notifications import JobLocation
from pinlater.server.backends.listeners import Listener
from pinlater.server.backends.mysql import buckets, call_results, listeners, queue_locks
from pinlater.server.backends.mysql.ack import MAX_ACKS, MysqlAckCall, ack_jobs
from pinlater.server.backends.mysql.cancel import cancel_jobs, finish_cancellation
from pinlater.server.backends.mysql.checkpoint import (
    MysqlCheckpointCall,
    MysqlCheckpointed,
    checkpoint_jobs,
    release_claims,
)
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.enqueue import JobInserter
from pinlater.server.backends.mysql.enqueue_call import MysqlEnqueueCall, enqueue, import_
from pinlater.server.backends.mysql.errors import NoRoom
from pinlater.server.backends.mysql.group_commit import BusyCommits, GroupCommit
from pinlater.server.backends.mysql.maintenance import MysqlMaintenance
from pinlater.server.backends.mysql.maintenance_probe import MaintenanceProbe
from pinlater.server.backends.mysql.messages import Incoming, send_messages
from pinlater.server.backends.mysql.orphaned_claims import MysqlOrphanedClaims
from pinlater.server.backends.mysql.pool import MysqlPool
from pinlater.server.backends.mysql.queries import Queries
from pinlater.server.backends.mysql.queue_claims import QueueClaims
from pinlater.server.backends.mysql.queues import MysqlQueues
from pinlater.server.backends.mysql.reports import MysqlReports
from pinlater.server.backends.mysql.shard_messages import MysqlMessages
from pinlater.server.backends.mysql.shares import MysqlDequeueCall
from pinlater.server.backends.mysql.statistics import MysqlStatistics
from pinlater.server.backends.mysql.transaction import Woken
from pinlater.server.backends.records import (
    MAX_ANSWER_BYTES,
    Cancelled,
    Claim,
    Dequeued,
    Once,
    Settled,
)
from pinlater.server.backends.search import Queue
from pinlater.server.backends.sharded import CallResult, ShardFull, ShardPoll
from pinlater.server.backends.store_options import StoreOptions
from pinlater.server.backends.token_bucket import Tokens

_T = TypeVar("_T")


class MysqlShard(MysqlMaintenance, MysqlMessages, MysqlReports, MysqlStatistics):
    """A shard in one database.

    Args:
        name: name of the shard.
        pool: connections to its server.
        database: name of its database, which is created if it does not exist.
        options: options of the store.
        on_close: releases the pool.
    """

    def __init__(
        self,
        name: str,
        pool: MysqlPool,
        database: str,
        options: StoreOptions,
        on_close: Callable[[], None],
    ) -> None:
        self.name = name
        self._options = options
        self._on_close = on_close
        self._pool = pool
        self._database = Database(name, pool, Queries(database), options.now_ms)
        self._database.on_woken = self._notify_woken
        self._database.on_outgoing = self._notify_outgoing
        self.on_outgoing: Callable[[Collection[str]], None] = lambda _: None
        self.clock = self._database.clock
        self._queues = MysqlQueues(self._database, options.priority_levels, self._forget_deleted)
        self._busy = BusyCommits()
        self._enqueues = GroupCommit(
            name, JobInserter(self._database).insert, busy=self._busy, on_commit=options.on_commit
        )
        self._acks: GroupCommit[MysqlAckCall, Settled] = GroupCommit(
            name,
            partial(ack_jobs, self._database),
            busy=self._busy,
            on_commit=options.on_commit,
            max_weight=MAX_ACKS,
            is_repeatable=attrgetter("is_repeatable"),
        )
        self._messages: GroupCommit[Sequence[Incoming], list[bool]] = GroupCommit(
            name, partial(send_messages, self._database), busy=self._busy, on_commit=options.on_commit
        )
        self._checkpoints: GroupCommit[MysqlCheckpointCall, MysqlCheckpointed] = GroupCommit(
            name,
            partial(checkpoint_jobs, self._database),
            busy=self._busy,
            on_commit=options.on_commit,
            is_repeatable=attrgetter("is_repeatable"),
        )
        self._notifications = options.notifications
        self._probe = MaintenanceProbe(self._database, options.priority_levels)
        self._orphaned = MysqlOrphanedClaims(self._database, options.on_commit, self._notify_released)
        self._claims = QueueClaims(self._database, self._orphaned, self._busy, options.on_commit)

    def _forget_deleted(self, queue_ids: frozenset[int]) -> None:
        """Drop what is known of deleted queues, given the ids of the others."""
        self._claims.keep_only(queue_ids)
        self._database.keep_only(queue_ids)

    @property
    def waiting(self) -> int:
        """Number of calls in group commits that have no result yet."""
        return self._busy.waiting

    @property
    def connections(self) -> int:
        """Number of open connections to its server, which all shards on it share."""
        return self._pool.connections

    async def ping(self, *, commits: bool = False) -> None:
        with suppress(NoRoom):  # its jobs can be looked at
            await self._database.rows(self._database.queries.bind("count_probe" if commits else "try_to_write"))

    async def read_clock(self) -> float:
        return await self._database.read(self._database.read_clock)

    # Queues

    async def create_queue(self, queue: str) -> None:
        try:
            await self._queues.create(queue)
        except NoRoom as error:
            raise self._full(error) from error

    async def delete_queue(self, queue: str) -> None:
        await self._queues.delete(queue)

    async def queue_names(self) -> set[str]:
        return set(await self._queues.all())

    async def queue_settings(self) -> dict[str, QueueSettings]:
        return await self._queues.settings()

    async def settings_of_queue(self, queue: str) -> QueueSettings | None:
        return await self._queues.settings_of(queue)

    async def change_queue_settings(self, queue: str, change: QueueChange) -> None:
        await self._queues.change_settings(queue, change)

    # Lifecycle

    async def enqueue_jobs(self, queue: str, jobs: Sequence[NewJob], *, once: Once = None) -> list[str]:
        return await self._with_queue(queue, lambda at: self._enqueue(enqueue(at, jobs, once)))

    async def import_jobs(self, queue: str, jobs: Sequence[JobRecord], *, once: Once = None) -> list[str]:
        return await self._with_queue(queue, lambda at: self._enqueue(import_(at, jobs, once)))

    async def call_result(self, queue: str, key: bytes) -> CallResult | None:
        await self._queues.get(queue)
        return await call_results.read_result(self._database, key)

    async def _with_queue(self, queue: str, call: Callable[[Queue], Awaitable[_T]]) -> _T:
        """Make a call that checks its queue; if that is gone, retry once, as another server may have recreated it."""
        at = await self._queues.get(queue)
        try:
            return await call(at)
        except QueueNotFound:
            self._queues.forget(queue)
            return await call(await self._queues.get(queue))

    async def _enqueue(self, call: MysqlEnqueueCall) -> list[str]:
        if not call.jobs:
            return []
        try:
            descriptors = await self._enqueues.submit(call, call.weight)
        except NoRoom as error:
            raise self._full(error) from error
        if any(job.run_after_ms is not None for job in call.jobs):
            self._claims.restart_scans(call.queue.id)
        return descriptors

    def _full(self, error: NoRoom) -> ShardFull:
        return ShardFull(f"shard {self.name} accepts no new jobs: {error}")

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
        call = MysqlDequeueCall(limit, max_bytes, claim.descriptor.encode(), claim.lease_ms, want_next_due, max_running)

        def claim_from(at: Queue) -> Awaitable[Dequeued]:
            return self._claims.claim(at._replace(prefixes=at.prefixes[:levels]), call)

        return await self._with_queue(queue, claim_from)

    def _notify_released(self, queue: Queue) -> None:
        """Notify the broker of released jobs, which no call has asked for."""
        self._claims.restart_scans(queue.id)
        self._notifications.on_claimable(queue.name, None, [JobLocation(self.name)])

    def _notify_woken(self, woken: Sequence[Woken]) -> None:
        """Notify the broker of sleeping jobs that messages have made due."""
        by_queue = grouped(((queue, queue_id), priority) for queue, queue_id, priority in woken)
        for (queue, queue_id), priorities in by_queue.items():
            self._claims.restart_scans(queue_id)
            locations = [JobLocation(self.name, priority) for priority in sorted(set(priorities))]
            self._notifications.on_claimable(queue, len(priorities), locations)

    def _notify_outgoing(self, shards: Collection[str]) -> None:
        self.on_outgoing(shards)

    async def acquire_tokens(self, queue: str, rate: float, wanted: int) -> Tokens:
        return await self._with_queue(queue, lambda at: buckets.acquire_tokens(self._database, at, rate, wanted))

    async def lock_queue(self, queue: str, milliseconds: int) -> int | None:
        return await self._with_queue(queue, lambda at: queue_locks.lock_queue(self._database, at, milliseconds))

    async def unlock_queue(self, queue: str, token: int) -> None:
        await self._with_queue(queue, lambda at: queue_locks.unlock_queue(self._database, at, token))

    async def ack_dequeued_jobs(
        self, queue: str, succeeded: Sequence[StoredAck], failed: Sequence[StoredAck]
    ) -> Settled:
        call = MysqlAckCall(await self._queues.get(queue), succeeded, failed)
        return await self._acks.submit(call, call.weight)

    async def checkpoint_jobs(self, queue: str, checkpoints: Sequence[StoredCheckpoint]) -> Settled:
        call = MysqlCheckpointCall(await self._queues.get(queue), checkpoints)
        with self._database.noting_refusals() if call.is_renewal else nullcontext():
            checkpointed = await self._checkpoints.submit(call, call.weight)
        if checkpointed.settled.due_ms is not None:
            self._claims.restart_scans(call.queue.id)
        return await checkpointed.with_jobs(self._database, call)

    async def cancel_jobs(self, queue: str, jobs: Sequence[JobDescriptor], status: str) -> Cancelled:
        at = await self._queues.get(queue)
        cancelled = await cancel_jobs(self._database, at, jobs, status)
        if cancelled.let_through:
            self._claims.restart_scans(at.id)
        return cancelled

    async def finish_cancellation(self, queue: str, jobs: Sequence[JobDescriptor]) -> None:
        await finish_cancellation(self._database, await self._queues.get(queue), jobs)

    async def release_claims(self, queue: str, source: str) -> int:
        at = await self._queues.get(queue)
        released = await release_claims(self._database, at, source)
        self._claims.restart_scans(at.id)
        return released

    async def poll_all(self, within_ms: int) -> ShardPoll:
        """Return the queues whose first job is due, or falls due within ``within_ms``."""
        return await self._probe.poll(within_ms)

    async def meet(self, me: Listener, keep_ms: int) -> list[Listener]:
        """Put a server into the list of servers that listen for notifications; return the others."""
        return await listeners.meet(self._database, me, keep_ms)

    async def close(self) -> None:
        await self._busy.finish()
        await self._orphaned.close()
        self._on_close()

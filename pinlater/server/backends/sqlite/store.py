"""The SQLite store: turns names into ids, and passes the work to the writer or the readers."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from operator import attrgetter
from pathlib import Path

from pinlater.errors import UnknownError
from pinlater.model.attempts import DequeuedJob, StoredAck, StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import FailureGroup
from pinlater.model.jobs import JobRecord, NewJob, Position, RecordPage
from pinlater.model.messages import Message, ReceivedMessage
from pinlater.model.queues import QueueChange, QueueSettings
from pinlater.server.backends.job_notifications import JobLocation
from pinlater.server.backends.poll_intervals import PollIntervals
from pinlater.server.backends.records import (
    MAX_ANSWER_BYTES,
    Cancelled,
    Claim,
    CommitStats,
    Dequeued,
    JobFilter,
    KeptReport,
    Once,
    Settled,
    StoreSize,
)
from pinlater.server.backends.search import Queue
from pinlater.server.backends.sqlite import (
    call_results,
    children,
    failure_groups,
    maintenance,
    messages,
    queues,
    reads,
    reports,
    statistics,
)
from pinlater.server.backends.sqlite.ack import SqliteAckRequest, ack_jobs
from pinlater.server.backends.sqlite.cancel import cancel, finish_cancellation
from pinlater.server.backends.sqlite.checkpoint import SqliteCheckpointRequest, checkpoint, release
from pinlater.server.backends.sqlite.claim import SqliteClaimRequest, claim_jobs
from pinlater.server.backends.sqlite.database import SqliteDatabase, opening
from pinlater.server.backends.sqlite.enqueue import EnqueueRequest, enqueue, enqueue_keyed
from pinlater.server.backends.sqlite.enqueue_claimed import enqueue_and_claim
from pinlater.server.backends.sqlite.file_watch import FileWatch
from pinlater.server.backends.sqlite.import_jobs import import_jobs
from pinlater.server.backends.sqlite.inline_commits import SMALL
from pinlater.server.backends.sqlite.messages import MessagePage, SendRequest, send
from pinlater.server.backends.sqlite.only_shard import SHARD, check_shard, checked, ours
from pinlater.server.backends.sqlite.operator_verbs import OperatorVerbs
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.queues import create, drop
from pinlater.server.backends.sqlite.readers import Readers
from pinlater.server.backends.sqlite.result_sweep import ResultSweep
from pinlater.server.backends.sqlite.verb import Verb
from pinlater.server.backends.sqlite.write_watch import WriteWatch
from pinlater.server.backends.sqlite.writer import Woken, Writer
from pinlater.server.backends.store import Capabilities
from pinlater.server.backends.store_options import StoreOptions
from pinlater.server.clock import SteadyClock
from pinlater.server.metrics.shard_state import ShardState

_unique_key_of, _key_of, _parent_of = map(attrgetter, ("unique", "key", "parent"))  # in C, since every job is checked

FILE_NAME = "pinlater.db"

_JOINT: Mapping[tuple[Verb, Verb], Verb] = {(enqueue, claim_jobs): enqueue_and_claim}

_VERBS = (
    drop,
    create,
    queues.change,
    ack_jobs,
    checkpoint,
    release,
    cancel,
    finish_cancellation,
    send,
    enqueue,
    enqueue_keyed,
    import_jobs,
    maintenance.retry,
    maintenance.retry_these,
    maintenance.schedule,
    maintenance.reap,
    claim_jobs,
    maintenance.delete,
    maintenance.delete_these,
    maintenance.collect,
    maintenance.forget,
    call_results.forget,
    reports.store,
    statistics.add,
    statistics.forget,
)
"""In the order in which a transaction carries them out: what makes jobs claimable comes before ``claim_jobs``.

``drop`` is only requested for queues that exist and ``create`` only for those that do not, so if both are in one
transaction, the queue is deleted and then created again.
"""


class SqliteStore(OperatorVerbs, statistics.SqliteStatistics):
    """Jobs in one file.

    Create it in the event loop that is going to use it.

    Attributes:
        now_ms: its clock.
        files: watches whether the files exist; its ``run`` has to run as a task.
        writes: watches whether the file can be written; its ``run`` likewise.

    Args:
        data_dir: folder of the file.
        options: options of the store.
        synchronous: see ``SqliteDatabase``.

    Raises:
        ConfigError, StoreUnavailable: see ``SqliteDatabase``.
    """

    capabilities = Capabilities(
        name="sqlite",
        is_serial=True,
        poll_intervals=PollIntervals(5.0, 60.0),  # only in case a job was missed: no other server stores any
    )

    def __init__(self, data_dir: Path, options: StoreOptions, *, synchronous: str = "FULL") -> None:
        self._options = options
        self.now_ms = now_ms = options.now_ms or SteadyClock(name="this machine").now_ms
        self._store = SqliteDatabase(data_dir / FILE_NAME, synchronous)
        with opening(self._store.path), ExitStack() as undo:
            undo.callback(self._store.close)
            connection = self._store.writer()
            undo.callback(connection.close)
            known = connection.execute(QUERIES["queues"]).fetchall()
            self._queues = {name: self._queue(queue_id, name) for queue_id, name in known}
            self._writer = Writer(connection, _VERBS, now_ms, self._committed, self._woken, small=SMALL, joint=_JOINT)
            undo.pop_all()
        self.files = FileWatch(self._store.files, now_ms)
        self.writes = WriteWatch(self._write_nothing, now_ms)
        self._readers = Readers(self._store.reader)
        self._result_sweep = ResultSweep(self._readers, self._writer, now_ms)
        self._renewals_failed_at = -math.inf

    shards = 1
    unhealthy_shards = 0
    """The only shard never counts as unhealthy: the file is open."""

    def shard_states(self) -> list[ShardState]:
        """Return the state of the file, as the only shard."""
        fault, since_ms = self.fault or "", (self.files if self.files.fault else self.writes).since_ms
        return [ShardState(SHARD, str(self._store.path), since_ms, error=fault, unhealthy_in=int(bool(fault)))]

    @property
    def fault(self) -> str | None:
        """Why no new jobs are taken; None if they are."""
        return self.files.fault or self.writes.fault

    def _committed(self, stats: CommitStats) -> None:
        if stats.is_failed:
            self.writes.request_test()
        self._options.on_commit(stats)

    def _woken(self, woken: Woken) -> None:
        names = self._names_by_id()
        for (queue_id, priority), count in woken.items():
            if queue_id in names and count:
                self._options.notifications.on_claimable(names[queue_id], count, [JobLocation(SHARD, priority)])

    async def _write_nothing(self) -> None:
        """Store a report that has already expired, so the same transaction deletes it."""
        await self._writer.submit(reports.store, ("nobody", b"", -1))

    async def ping_shards(self) -> dict[str, str]:
        """Return no errors: the file is open, so the only shard answers."""
        return {}

    async def sizes(self) -> dict[str, StoreSize]:
        return {SHARD: await asyncio.to_thread(self._store.size)}

    @property
    def waiting(self) -> int:
        """Write requests that have no result yet."""
        return self._writer.waiting

    # Queues

    async def create_queue(self, queue: str) -> None:
        if queue not in self._queues:
            queue_id = await self._writer.submit(create, (queue,))
            self._queues[queue] = self._queue(queue_id, queue)

    async def delete_queue(self, queue: str) -> None:
        known = self._queues.pop(queue, None)
        if known is None:
            return
        try:
            await self._writer.submit(drop, (queue,))
        except UnknownError:  # nothing was changed: the queue still exists
            self._queues.setdefault(queue, known)
            raise

    async def queue_names(self) -> set[str]:
        return set(self._queues)

    async def queue_settings(self) -> dict[str, QueueSettings]:
        return await self._readers.run(queues.settings)

    changed_queue_settings = queue_settings

    async def change_queue_settings(self, queue: str, change: QueueChange) -> None:
        await self._writer.submit(queues.change, (self._named(queue).id, change))

    def _queue(self, queue_id: int, name: str) -> Queue:
        prefixes = tuple(f"{name}:s{SHARD}:p{priority}:" for priority in range(1, self._options.priority_levels + 1))
        return Queue(queue_id, name, prefixes)

    # The life of jobs

    async def enqueue_jobs(self, queue: str, jobs: Sequence[NewJob], *, once: Once = None) -> list[str]:
        at = self._named(queue)
        self.files.admit()
        if not jobs:
            return []
        prefixes, request = at.prefixes, EnqueueRequest(at.id, jobs, once)
        if any(map(_unique_key_of, jobs)) or any(map(_key_of, jobs)) or any(map(_parent_of, jobs)):
            places = await self._writer.submit(enqueue_keyed, request)
            return [f"{prefixes[priority - 1]}{local_id}" for priority, local_id in places]
        first_id = await self._writer.submit(enqueue, request)
        return [f"{prefixes[job.priority - 1]}{local_id}" for local_id, job in enumerate(jobs, first_id)]

    async def import_jobs(self, queue: str, jobs: Sequence[JobRecord], *, once: Once = None) -> list[str]:
        at = self._named(queue)
        self.files.admit()
        places = await self._writer.submit(import_jobs, (at.id, jobs, once))
        return [f"{at.prefixes[priority - 1]}{local_id}" for priority, local_id in places]

    async def dequeue_jobs(
        self,
        queue: str,
        limit: int,
        claim: Claim,
        *,
        max_bytes: int = MAX_ANSWER_BYTES,
        want_next_due: bool = False,
        max_running: int | None = None,
    ) -> Dequeued:
        at = self._named(queue)
        request = SqliteClaimRequest(
            at.id, at.prefixes, limit, max_bytes, claim.descriptor, claim.lease_ms, want_next_due, max_running
        )
        return await self._writer.submit(claim_jobs, request)

    async def peek_jobs(self, queue: str, limit: int, *, max_bytes: int = MAX_ANSWER_BYTES) -> list[DequeuedJob]:
        return await self._readers.run(reads.peek, self._named(queue), self.now_ms(), limit, max_bytes)

    async def ack_dequeued_jobs(
        self, queue: str, succeeded: Sequence[StoredAck], failed: Sequence[StoredAck]
    ) -> Settled:
        at = self._named(queue)
        foreign = [ack.job for ack in (*succeeded, *failed) if ack.job.shard != SHARD]
        if foreign:  # the call fails, but only after the other acks were carried out
            succeeded, failed = ours(succeeded), ours(failed)
        acked = await self._writer.submit(ack_jobs, SqliteAckRequest(at.id, succeeded, failed))
        if foreign:
            check_shard(foreign[0])
        return acked

    async def checkpoint_jobs(self, queue: str, checkpoints: Sequence[StoredCheckpoint]) -> Settled:
        at = self._named(queue)
        for item in checkpoints:
            check_shard(item.job)
        try:
            return await self._writer.submit(checkpoint, SqliteCheckpointRequest(at.id, checkpoints))
        except UnknownError:
            self._renewals_failed_at = time.monotonic()
            raise

    async def cancel_jobs(self, queue: str, jobs: Sequence[JobDescriptor], status: str) -> Cancelled:
        return await self._writer.submit(cancel, (self._named(queue).id, checked(jobs), status))

    async def finish_cancellation(self, queue: str, jobs: Sequence[JobDescriptor]) -> None:
        await self._writer.submit(finish_cancellation, (self._named(queue).id, checked(jobs)))

    async def release_claims(self, queue: str, source: str) -> int:
        return await self._writer.submit(release, (self._named(queue).id, source))

    # Messages

    async def send_message(self, job: JobDescriptor, message: Message) -> bool:
        at = self._queues.get(job.queue)
        if at is None:
            return False
        check_shard(job)
        return await self._writer.submit(send, SendRequest(at.id, job.priority, job.local_id, message))

    async def read_messages(
        self, job: JobDescriptor, name: str, after: int, limit: int, max_bytes: int = MAX_ANSWER_BYTES
    ) -> list[ReceivedMessage]:
        at = self._queues.get(job.queue)
        if at is None:
            return []
        check_shard(job)
        return await self._readers.run(messages.read, at, job, name, MessagePage(after, limit, max_bytes))

    async def children_to_cancel(self, parents: Sequence[JobDescriptor], limit: int) -> list[JobDescriptor]:
        return await self._readers.run(children.to_cancel, checked(parents), limit)

    async def relay_messages(self) -> None:
        """Do nothing: all jobs are on one shard."""

    # Reads

    async def lookup_jobs(
        self, jobs: Sequence[JobDescriptor], *, body_bytes: int = 0, include_result: bool = False
    ) -> list[JobRecord | None]:
        addresses = [
            (queue, job.priority, job.local_id) if (queue := self._queues.get(job.queue)) else None
            for job in checked(jobs)
        ]
        return await self._readers.run(reads.lookup, addresses, body_bytes, include_result)

    async def count_jobs(self, queue: str, which: JobFilter) -> int:
        return await self._readers.run(reads.count, self._search(queue, which), self._options.count_limit)

    async def states_in_use(self) -> dict[str, set[int]]:
        return await self._readers.run(reads.states_in_use)

    async def first_due(self, queues: Sequence[str]) -> dict[str, int | None]:
        known = [self._queues[queue] for queue in queues if queue in self._queues]
        return await self._readers.run(reads.first_due, known)

    async def scan_jobs(
        self, queue: str, which: JobFilter, limit: int, position: Position | None, *, oldest_first: bool = False
    ) -> RecordPage:
        search = self._search(queue, which)._replace(is_oldest_first=oldest_first)
        return await self._readers.run(reads.scan, search, limit, position)

    async def failure_groups(self, queues: Sequence[str], limit: int) -> list[FailureGroup]:
        asked = [self._queues[name] for name in queues or self._queues if name in self._queues]
        return await self._readers.run(failure_groups.read, {queue.id: queue for queue in asked}, limit)

    # Changes by operators, expiry and collection: see ``OperatorVerbs``

    async def forget_results(self, limit: int) -> int:
        others = self._writer.submit(maintenance.forget, (limit,))
        return sum(await asyncio.gather(others, self._result_sweep.forget(limit)))

    async def store_report(self, worker_id: str, report: bytes, keep_ms: int) -> None:
        await self._writer.submit(reports.store, (worker_id, report, keep_ms))

    async def reports(self, max_bytes: int = MAX_ANSWER_BYTES) -> list[KeptReport]:
        return await self._readers.run(reports.read, self.now_ms(), max_bytes)

    async def close(self) -> None:
        await self._writer.close()
        await asyncio.get_running_loop().run_in_executor(None, self._readers.close)
        self._store.close()

"""One Redis, or Valkey, server as a shard: the verbs of the contract, each one script or a walk in chunks."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from redis.asyncio import Connection
from redis.exceptions import MovedError, ResponseError

from pinlater.errors import ShardConnectionFailed, UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import PENDING
from pinlater.server.backends.body_pattern import BodyPattern
from pinlater.server.backends.job_notifications import JobNotifications
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
from pinlater.server.backends.redis import import_jobs, lifecycle, maintenance, reads, reports
from pinlater.server.backends.redis.cluster import elsewhere
from pinlater.server.backends.redis.connection import Link
from pinlater.server.backends.redis.due_index import Earliest
from pinlater.server.backends.redis.durability import DurabilityCheck
from pinlater.server.backends.redis.endpoint import Place
from pinlater.server.backends.redis.handshake import greet
from pinlater.server.backends.redis.job_notifications import Wakeups
from pinlater.server.backends.redis.orphaned_claims import Strays
from pinlater.server.backends.redis.queues import Queues
from pinlater.server.backends.redis.script_calls import ANY_QUEUE, Asker
from pinlater.server.backends.sharded import CallResult, ClockRecord, DuePriorities, ShardClock, ShardUnreachable
from pinlater.server.backends.token_bucket import Tokens

PREFIX = "pinlater:"
"""Of all keys, so that a server may be shared with others."""

_PING_SECONDS = 1.0

_CLOCK = "clock"
"""The key with what the last server left that read the shard's clock; it is of no use for long."""

_VISIT_SECONDS = 3600


class RedisShard:
    """Jobs in one Redis database.

    Two connections: one for the calls of workers and producers, one for those that may take longer. Everything of a
    queue has keys that begin with ``pinlater:{<shard>:<queue>}``: several shards may share a server.

    Args:
        name: of the shard.
        place: where it is.
        priority_levels: priorities are 1 to this.
        count_limit: counts stop at this number per priority.
        regex_seconds: time for the body patterns of one call.
        now_ms: the time, for tests; None: that of the server, but for steps of its clock, which are followed slowly.
        on_commit: is told of each batch of calls of producers and workers.
        notifications: told of jobs that other servers made claimable; None: this shard tells and hears nothing.
    """

    def __init__(
        self,
        name: str,
        place: Place,
        *,
        priority_levels: int,
        count_limit: int = 100_000,
        regex_seconds: float = 2.0,
        now_ms: Callable[[], int] | None = None,
        on_commit: Callable[[CommitStats], None] = lambda _: None,
        notifications: JobNotifications | None = None,
    ) -> None:
        self.name = name
        self._levels = priority_levels
        self._count_limit = count_limit
        self._regex_seconds = regex_seconds
        self._link = Link(name, place, greet, on_commit)
        self._side = Link(name, place, self._greet_and_look)
        self._clock = ShardClock()
        now = now_ms or self._steady_now
        self._work = Asker(name, self._link, self._tag, now)
        self._look = Asker(name, self._side, self._tag, now)
        self._work_aside = Asker(name, self._link, self._own, now)
        self._aside = Asker(name, self._side, self._own, now)
        self._queues = Queues(self._look, self._aside, self._plain, self._own(ANY_QUEUE), self._tag)
        self._earliest = Earliest(self._aside, self._queues.listed)
        self._durability = DurabilityCheck(name)
        self._notifications = notifications or JobNotifications()
        self._wakeups = Wakeups(name, place, self._own("arrivals"), self._along, notifications)
        self._strays = Strays(self._look, self._came_back, on_commit)

    async def _greet_and_look(self, connection: Connection) -> None:
        await greet(connection)
        await self._durability.look(connection)
        self._wakeups.listen()

    @property
    def waiting(self) -> int:
        """Requests that have no result yet."""
        return self._link.waiting + self._side.waiting

    @property
    def connections(self) -> int:
        """Open connections to its server, but for the one that listens for jobs of other servers."""
        return self._link.is_open + self._side.is_open

    def _tag(self, queue: str) -> str:
        return f"{PREFIX}{{{self.name}:{queue}}}"

    def _own(self, place: str) -> str:
        """Return the key of what is not one queue's."""
        return f"{PREFIX}{{{self.name}}}:{place}"

    async def ping(self) -> None:
        try:
            async with asyncio.timeout(_PING_SECONDS):
                await self._plain("PING")
        except TimeoutError:
            raise ShardConnectionFailed(f"shard {self.name} did not answer within {_PING_SECONDS:g} s") from None

    async def size(self) -> StoreSize:
        told = (line.partition(b":") for line in (await self._plain("INFO", "memory")).splitlines())
        memory = {name: value for name, _, value in told}
        used, most = int(memory[b"used_memory"]), int(memory.get(b"maxmemory", 0))
        return StoreSize(used, max(most - used, 0) if most else None)

    async def read_clock(self) -> float:
        own_ms, kept = 0.0, b""

        async def shown_ms() -> float:
            nonlocal own_ms, kept
            own, kept = await self._aside.ask("tell_time", _CLOCK)
            own_ms = float(own)
            return own_ms

        await self._clock.read(shown_ms)
        visit = self._clock.meet(own_ms, ClockRecord(*map(float, kept.split())) if kept else None)
        if visit is not None:
            with suppress(UnknownError):  # a full server tells the time all the same
                await self._plain(
                    "SET", self._own(_CLOCK), f"{visit.ahead_ms:.3f} {visit.seen_ms:.3f}", "EX", _VISIT_SECONDS
                )
        return self._clock.ahead_ms

    def _steady_now(self) -> str:
        return f"~{self._clock.now_ms()}" if self._clock.is_read else ""

    async def _plain(self, *command: Any) -> Any:
        return await self._say(self._side, command)

    async def _along(self, *command: Any) -> Any:
        """Send a command along with the calls of workers and producers."""
        return await self._say(self._link, command)

    async def _say(self, link: Link, command: Sequence[Any]) -> Any:
        try:
            return await link.call(*command)
        except MovedError:
            raise elsewhere(self.name) from None
        except ResponseError as error:
            raise UnknownError(f"shard {self.name} could not carry this out: {error}") from None

    # Queues

    async def create_queue(self, queue: str) -> None:
        await self._queues.create(queue)

    async def delete_queue(self, queue: str) -> None:
        await self._queues.delete(queue)

    async def queue_names(self) -> set[str]:
        return {*await self._queues.settings()}

    async def queue_settings(self) -> dict[str, QueueSettings]:
        return await self._queues.settings()

    async def change_queue_settings(self, queue: str, change: QueueChange) -> None:
        await self._queues.change_settings(queue, change)

    # The life of jobs

    async def call_result(self, queue: str, key: bytes) -> CallResult | None:
        return await lifecycle.call_result(self._work, queue, key)

    async def enqueue_jobs(
        self, queue: str, jobs: Sequence[NewJob], *, once: IdempotencyKey | None = None
    ) -> list[str]:
        names = await lifecycle.enqueue(self._work, queue, jobs, once)
        if names:
            self._wakeups.tell(queue, lifecycle.first_due_of(jobs))
        return names

    async def import_jobs(
        self, queue: str, jobs: Sequence[JobRecord], *, once: IdempotencyKey | None = None
    ) -> list[str]:
        names = await import_jobs.import_jobs(self._look, queue, jobs, once)
        self._wakeups.tell(queue)
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
        if self._strays.has(queue, claim.descriptor):
            raise ShardUnreachable(f"shard {self.name} did not answer this dequeue; what it claimed goes back first")
        try:
            return await lifecycle.claim(
                self._work,
                queue,
                limit,
                claim,
                max_bytes=max_bytes,
                levels=levels or self._levels,
                want_next_due=want_next_due,
                max_running=max_running,
            )
        except ShardUnreachable:
            raise
        except (ShardConnectionFailed, asyncio.CancelledError):
            self._strays.add(queue, claim)
            raise

    async def acquire_tokens(self, queue: str, rate: float, wanted: int) -> Tokens:
        return await lifecycle.acquire_tokens(self._work, queue, rate, wanted)

    async def due_priorities(self, queue: str) -> DuePriorities:
        return await lifecycle.due_priorities(self._work_aside, queue, self._levels)

    async def lock_queue(self, queue: str, milliseconds: int) -> int | None:
        return await lifecycle.lock_queue(self._work, queue, milliseconds)

    async def unlock_queue(self, queue: str, token: int) -> None:
        await lifecycle.unlock_queue(self._work, queue, token)

    async def peek_jobs(self, queue: str, limit: int, *, max_bytes: int = MAX_ANSWER_BYTES) -> list[ClaimedJob]:
        shown = await lifecycle.claim(self._look, queue, limit, None, max_bytes=max_bytes, levels=self._levels)
        return shown.jobs

    async def ack_dequeued_jobs(self, queue: str, succeeded: Sequence[Ack], failed: Sequence[Ack]) -> Settled:
        settled = await lifecycle.settle(self._work, queue, succeeded, failed)
        if settled.changed and not all(ack.is_final for ack in failed):
            self._wakeups.tell(queue, settled.due_ms)
        return settled

    async def checkpoint_jobs(self, queue: str, checkpoints: Sequence[Checkpoint]) -> Settled:
        settled = await lifecycle.checkpoint(self._work, queue, checkpoints)
        if settled.due_ms is not None:
            self._wakeups.tell(queue, settled.due_ms)
        return settled

    async def release_claims(self, queue: str, source: str) -> int:
        released = await lifecycle.release(self._look, queue, by="source", which=source)
        return self._told(queue, released)

    # Looking

    async def lookup_jobs(self, jobs: Sequence[JobDescriptor], *, include_body: bool) -> list[JobRecord | None]:
        places: defaultdict[str, list[int]] = defaultdict(list)
        for at, job in enumerate(jobs):
            places[job.queue].append(at)
        records: list[JobRecord | None] = [None] * len(jobs)
        for queue, own in places.items():
            found = await reads.lookup(self._look, queue, [jobs[at] for at in own], include_body=include_body)
            for at, record in zip(own, found, strict=True):
                records[at] = record
        return records

    async def count_jobs(self, queue: str, which: JobFilter) -> int:
        return await reads.count(self._look, await self._search(queue, which), self._count_limit)

    async def oldest_due_ms(self, queue: str) -> int | None:
        return await reads.oldest_due(self._look, await self._search(queue, JobFilter(PENDING)))

    async def first_due(self, queues: Sequence[str]) -> Mapping[str, Sequence[int | None]]:
        return await reads.first_due(self._aside, queues, self._levels)

    async def scan_jobs(self, queue: str, which: JobFilter, limit: int, position: Position | None) -> Page:
        return await reads.scan(self._look, await self._search(queue, which), limit, position)

    async def _search(self, queue: str, which: JobFilter) -> reads.Search:
        regex = which.body_regex
        pattern = await asyncio.to_thread(BodyPattern, regex, self._regex_seconds) if regex else None
        return reads.Search(queue, which, self._levels, pattern)

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
        moved = await maintenance.retry(
            self._look, queue, maintenance.Retry(priority, attempts, run_after_ms, limit, once)
        )
        return self._told(queue, moved, run_after_ms)

    def _came_back(self, queue: str) -> None:
        """Tell everybody of jobs that were given back unasked."""
        self._notifications.on_job(queue, None)
        self._wakeups.tell(queue)

    def _told(self, queue: str, moved: int, due_ms: int | None = None) -> int:
        if moved:
            self._wakeups.tell(queue, due_ms)
        return moved

    async def delete_jobs(self, queue: str, which: JobFilter, limit: int, *, once: IdempotencyKey | None = None) -> int:
        return await maintenance.delete(self._look, await self._search(queue, which), limit, once)

    async def retry_these_jobs(
        self,
        queue: str,
        jobs: Sequence[JobDescriptor],
        attempts: int,
        run_after_ms: int | None,
        *,
        once: IdempotencyKey | None = None,
    ) -> int:
        moved = await maintenance.retry_these(self._look, queue, jobs, attempts, run_after_ms, once=once)
        return self._told(queue, moved, run_after_ms)

    async def run_jobs_now(
        self, queue: str, jobs: Sequence[JobDescriptor], *, once: IdempotencyKey | None = None
    ) -> int:
        return self._told(queue, await maintenance.run_now(self._look, queue, jobs, once))

    async def delete_these_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], state: int, *, once: IdempotencyKey | None = None
    ) -> int:
        return await maintenance.delete_these(self._look, queue, jobs, state, once)

    async def reap_expired(self, limit: int, *, server_age_ms: int, quiet_ms: int) -> list[Expired]:
        asked_at = self._look.now()
        # While the shard was away, nobody could renew a claim: as after a start of the server, they get time to.
        age_ms = int(min(server_age_ms, self._side.seconds_since_failure * 1000))
        respite = maintenance.Respite(asked_at, age_ms, quiet_ms)
        found = await maintenance.reap(self._look, self._earliest, limit, respite)
        for queue, retried, _ in found:
            self._told(queue, retried)
        return found

    async def collect_finished(self, succeeded_ttl_ms: int, failed_ttl_ms: int, limit: int) -> list[Collected]:
        return await maintenance.collect(self._look, self._earliest, succeeded_ttl_ms, failed_ttl_ms, limit)

    async def forget_results(self, limit: int) -> int:  # noqa: ARG002 - Redis lets go of them by itself
        return 0

    async def store_report(self, worker_id: str, report: bytes, keep_ms: int) -> None:
        await reports.keep(self._aside, worker_id, report, keep_ms)

    async def reports(self, max_bytes: int) -> list[KeptReport]:
        return await reports.read(self._aside, max_bytes)

    async def close(self) -> None:
        await self._strays.close()
        await self._wakeups.close()
        await asyncio.gather(self._link.close(), self._side.close())

"""A shard in a Redis or Valkey server: each verb of the contract is one script, or several pages of one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from redis.exceptions import ResponseError

from pinlater.errors import ShardConnectionFailed, UnknownError
from pinlater.model.attempts import DequeuedJob
from pinlater.model.jobs import NewJob
from pinlater.model.queues import QueueChange, QueueSettings
from pinlater.server.backends.job_notifications import JobLocation
from pinlater.server.backends.records import (
    MAX_ANSWER_BYTES,
    Claim,
    Dequeued,
    Once,
    StoreSize,
)
from pinlater.server.backends.redis import lifecycle
from pinlater.server.backends.redis.channel_network import ServerChannels, ShardChannel
from pinlater.server.backends.redis.connection import SharedConnection
from pinlater.server.backends.redis.durability import DurabilityCheck
from pinlater.server.backends.redis.endpoint import RedisEndpoint
from pinlater.server.backends.redis.handshake import handshake
from pinlater.server.backends.redis.lifecycle import RedisLifecycle
from pinlater.server.backends.redis.maintenance import RedisMaintenance
from pinlater.server.backends.redis.messages import RedisMessages
from pinlater.server.backends.redis.orphaned_claims import RedisOrphanedClaims
from pinlater.server.backends.redis.queues import RedisQueues
from pinlater.server.backends.redis.reports import RedisReports
from pinlater.server.backends.redis.resp import RespConnection
from pinlater.server.backends.redis.script_calls import ScriptRunner, Woken
from pinlater.server.backends.redis.statistics import RedisStatistics
from pinlater.server.backends.sharded import (
    ClockRecord,
    ShardClock,
    ShardUnreachable,
)
from pinlater.server.backends.store_options import StoreOptions

_PING_SECONDS = 1.0

_CLOCK = "clock"
"""Name of the key in which a server stores its last reading of the shard's clock, for the next server that reads it."""

_CLOCK_READING_SECONDS = 3600
"""Lifetime of that key, in seconds."""


class RedisShard(RedisLifecycle, RedisMaintenance, RedisMessages, RedisReports, RedisStatistics):
    """A shard in one Redis database.

    It has two connections: one for the calls of workers and producers, one for calls that may take longer. All keys
    contain the name of the shard, so several shards can share a server.

    Args:
        name: name of the shard.
        endpoint: endpoint of its server.
        options: options of the store; ``on_commit`` is called for each batch of calls of producers and workers.
        channels: passes on messages between servers, by the shards; None: this shard passes on none.
    """

    def __init__(
        self,
        name: str,
        endpoint: RedisEndpoint,
        options: StoreOptions,
        channels: ServerChannels | None = None,
    ) -> None:
        self.name = name
        self._options = options
        self._levels = options.priority_levels
        self._connection = SharedConnection(name, endpoint, handshake, options.on_commit)
        self._slow_connection = SharedConnection(name, endpoint, self._slow_handshake)
        self.clock = ShardClock(name=f"shard {name}")
        now = options.now_ms or self._steady_now
        self._scripts = ScriptRunner(name, self._connection, now, self._notify_woken, self._notify_outgoing)
        self._slow_scripts = ScriptRunner(name, self._slow_connection, now, self._notify_woken, self._notify_outgoing)
        self._queues = RedisQueues(self._slow_scripts)
        self._durability = DurabilityCheck(name)
        self._notifications = options.notifications
        self._channels = channels
        self._channel = ShardChannel(name, self._connection, endpoint, self._scripts.shard_key("servers"))
        if channels is not None:
            channels.add(self._channel)
        self._orphaned = RedisOrphanedClaims(self._slow_scripts, self._notify_released, options.on_commit)
        self.on_outgoing = lambda _: None

    async def _slow_handshake(self, connection: RespConnection) -> None:
        await handshake(connection)
        await self._durability.run(connection)

    @property
    def waiting(self) -> int:
        """Number of calls without an answer."""
        return self._connection.waiting + self._slow_connection.waiting

    @property
    def connections(self) -> int:
        """Number of open connections to its server, not counting the subscription to messages of other servers."""
        return self._connection.is_open + self._slow_connection.is_open

    async def ping(self, *, commits: bool = False) -> None:  # noqa: ARG002
        try:
            async with asyncio.timeout(_PING_SECONDS):
                await self._slow_scripts.command("DEL", self._slow_scripts.shard_key("ping"))  # which may be forbidden
        except TimeoutError:
            raise ShardConnectionFailed(f"shard {self.name} did not answer within {_PING_SECONDS:g} s") from None

    async def size(self) -> StoreSize:
        try:
            told = await self._slow_connection.call("INFO", "memory")
        except ResponseError as error:  # if a permission is missing for this alone, it is the right server all the same
            raise UnknownError(f"shard {self.name} does not tell its size: {error}") from None
        memory = {name: value for name, _, value in (line.partition(b":") for line in told.splitlines())}
        used, most = int(memory[b"used_memory"]), int(memory.get(b"maxmemory", 0))
        return StoreSize(used, max(most - used, 0) if most else None)

    async def read_clock(self) -> float:
        own_ms, stored = 0.0, b""

        async def shown_ms() -> float:
            nonlocal own_ms, stored
            own, stored = await self._slow_scripts.run_for_shard("read_clock", _CLOCK)
            own_ms = float(own)
            return own_ms

        await self.clock.read(shown_ms)
        visit = self.clock.meet(own_ms, ClockRecord(*map(float, stored.split())) if stored else None)
        if visit is not None:
            with suppress(UnknownError):  # a full server accepts no writes, but the reading still counts
                reading = f"{visit.ahead_ms:.3f} {visit.seen_ms:.3f}"
                await self._slow_scripts.command(
                    "SET", self._slow_scripts.shard_key(_CLOCK), reading, "EX", _CLOCK_READING_SECONDS
                )
        return self.clock.ahead_ms

    def _steady_now(self) -> str:
        return f"~{self.clock.now_ms()}" if self.clock.is_read else ""

    # Queues

    async def create_queue(self, queue: str) -> None:
        await self._queues.create(queue)

    async def delete_queue(self, queue: str) -> None:
        await self._queues.delete(queue)

    async def queue_settings(self) -> dict[str, QueueSettings]:
        return await self._queues.settings()

    async def settings_of_queue(self, queue: str) -> QueueSettings | None:
        return await self._queues.settings_of(queue)

    async def change_queue_settings(self, queue: str, change: QueueChange) -> None:
        await self._queues.change_settings(queue, change)

    # Lifecycle

    async def enqueue_jobs(self, queue: str, jobs: Sequence[NewJob], *, once: Once = None) -> list[str]:
        return await lifecycle.enqueue(self._scripts, queue, jobs, once)

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
        if self._orphaned.has(queue, claim.descriptor):
            raise ShardUnreachable(f"shard {self.name} did not answer this dequeue; its jobs are being released")
        try:
            return await lifecycle.claim(
                self._scripts,
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
            self._orphaned.add(queue, claim)
            raise

    async def peek_jobs(self, queue: str, limit: int, *, max_bytes: int = MAX_ANSWER_BYTES) -> list[DequeuedJob]:
        shown = await lifecycle.claim(self._slow_scripts, queue, limit, None, max_bytes=max_bytes, levels=self._levels)
        return shown.jobs

    async def release_claims(self, queue: str, source: str) -> int:
        return await lifecycle.release(self._slow_scripts, queue, by="source", which=source)

    def _notify_released(self, queue: str) -> None:
        """Notify the broker of released jobs, which no call has asked for."""
        self._notifications.on_claimable(queue, None, [JobLocation(self.name)])

    def _notify_woken(self, woken: list[Woken]) -> None:
        """Notify the broker of jobs whose sleep has ended."""
        counts: Counter[str] = Counter()
        for queue, _, jobs in woken:
            counts[queue] += jobs
        for queue, count in counts.items():
            where = {JobLocation(self.name, priority) for name, priority, _ in woken if name == queue}
            self._notifications.on_claimable(queue, count, where)

    async def close(self) -> None:
        await self._orphaned.close()
        if self._channels is not None:
            self._channels.remove(self._channel)
        await self._channel.close()
        await asyncio.gather(self._connection.close(), self._slow_connection.close())

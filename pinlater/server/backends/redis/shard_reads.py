"""The verbs of a shard that only read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import FailureGroup
from pinlater.model.jobs import JobRecord, Position, RecordPage
from pinlater.protocol.messages import PENDING
from pinlater.server.backends.body_pattern import BodyPattern
from pinlater.server.backends.records import JobFilter
from pinlater.server.backends.redis import failure_groups, reads
from pinlater.server.backends.redis.queues import RedisQueues
from pinlater.server.backends.redis.script_calls import ScriptRunner
from pinlater.server.backends.sharded import DuePriorities


class RedisReads:
    """The part of a shard that reads jobs."""

    _slow_scripts: ScriptRunner
    _scripts: ScriptRunner
    _levels: int
    _count_limit: int
    _regex_seconds: float
    _queues: RedisQueues

    async def queue_names(self) -> set[str]:
        return {*await self._queues.settings()}

    async def lookup_jobs(
        self, jobs: Sequence[JobDescriptor], *, body_bytes: int = 0, include_result: bool = False
    ) -> list[JobRecord | None]:
        return await reads.lookup(self._slow_scripts, jobs, body_bytes, include_result=include_result)

    async def count_jobs(self, queue: str, which: JobFilter) -> int:
        return await reads.count(self._slow_scripts, await self._search(queue, which), self._count_limit)

    async def count_running(self, queue: str) -> int:
        return await reads.count_running(self._slow_scripts, queue)

    async def oldest_due_ms(self, queue: str) -> int | None:
        return await reads.oldest_due(self._slow_scripts, await self._search(queue, JobFilter(PENDING)))

    async def states_in_use(self) -> dict[str, set[int]]:
        return await reads.states_in_use(self._slow_scripts, sorted(await self.queue_names()), self._levels)

    async def first_due(self, queues: Sequence[str]) -> dict[str, int | None]:
        return {queue: due.first_due_ms for queue, due in (await self.due_priorities(queues)).items()}

    async def due_priorities(self, queues: Sequence[str]) -> dict[str, DuePriorities]:
        scripts = self._scripts if len(queues) == 1 else self._slow_scripts
        return await reads.due_priorities(scripts, queues, self._levels)

    async def scan_jobs(
        self, queue: str, which: JobFilter, limit: int, position: Position | None, *, oldest_first: bool = False
    ) -> RecordPage:
        search = (await self._search(queue, which))._replace(is_oldest_first=oldest_first)
        return await reads.scan(self._slow_scripts, search, limit, position)

    async def failure_groups(self, queues: Sequence[str], limit: int) -> list[FailureGroup]:
        return await failure_groups.read(self._slow_scripts, queues, limit)

    async def _search(self, queue: str, which: JobFilter) -> reads.RedisSearch:
        regex = which.body_regex
        pattern = await asyncio.to_thread(BodyPattern, regex, self._regex_seconds) if regex else None
        return reads.RedisSearch(queue, which, self._levels, pattern)

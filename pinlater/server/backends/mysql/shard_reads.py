"""The verbs of a shard that only read."""

from __future__ import annotations

from collections.abc import Sequence

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import FailureGroup
from pinlater.model.jobs import JobRecord, Position, RecordPage
from pinlater.protocol.messages import PENDING
from pinlater.server.backends.mysql import failure_groups, reads
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.options import MysqlOptions
from pinlater.server.backends.mysql.queues import MysqlQueues
from pinlater.server.backends.records import JobFilter
from pinlater.server.backends.search import JobSearch
from pinlater.server.backends.sharded import DuePriorities


class MysqlReads:
    """The part of a shard that reads jobs."""

    _database: Database
    _options: MysqlOptions
    _queues: MysqlQueues

    async def lookup_jobs(
        self, jobs: Sequence[JobDescriptor], *, body_bytes: int = 0, include_result: bool = False
    ) -> list[JobRecord | None]:
        queues = await self._queues.find([job.queue for job in jobs])
        return await reads.lookup(self._database, queues, jobs, body_bytes, include_result=include_result)

    async def count_jobs(self, queue: str, which: JobFilter) -> int:
        search = await self._search(queue, which)
        return await reads.count(self._database, search, self._options.count_limit)

    async def count_running(self, queue: str) -> int:
        return await reads.count_running(self._database, await self._queues.get(queue))

    async def oldest_due_ms(self, queue: str) -> int | None:
        return await reads.oldest_due(self._database, await self._search(queue, JobFilter(PENDING)))

    async def states_in_use(self) -> dict[str, set[int]]:
        return await reads.states_in_use(self._database)

    async def first_due(self, queues: Sequence[str]) -> dict[str, int | None]:
        return {queue: due.first_due_ms for queue, due in (await self.due_priorities(queues)).items()}

    async def due_priorities(self, queues: Sequence[str]) -> dict[str, DuePriorities]:
        return await reads.due_priorities(self._database, queues, self._options.priority_levels)

    async def scan_jobs(
        self, queue: str, which: JobFilter, limit: int, position: Position | None, *, oldest_first: bool = False
    ) -> RecordPage:
        search = (await self._search(queue, which))._replace(is_oldest_first=oldest_first)
        return await reads.scan(self._database, search, limit, position)

    async def failure_groups(self, queues: Sequence[str], limit: int) -> list[FailureGroup]:
        known = await (self._queues.find(queues) if queues else self._queues.all())
        return await failure_groups.read(self._database, {at.id: at.name for at in known.values()}, limit)

    async def _search(self, queue: str, which: JobFilter) -> JobSearch:
        at = await self._queues.get(queue)
        return JobSearch(at, which, self._database.now_ms(), self._options.regex_seconds)

"""Statistics: a script adds them up, and Redis expires them."""

from __future__ import annotations

from collections.abc import Sequence

from pinlater.model.statistics import KEPT_SECONDS
from pinlater.server.backends.redis.lifecycle import pack
from pinlater.server.backends.redis.script_calls import ScriptRunner
from pinlater.server.backends.statistics import (
    PAGE_PERIODS,
    StatisticsEntry,
    StatisticsQuery,
    chunks,
    encode,
)

_KEY = "statistics"


class RedisStatistics:
    """The part of a shard that keeps statistics."""

    _slow_scripts: ScriptRunner

    async def add_statistics(self, entries: Sequence[StatisticsEntry]) -> None:
        packed = [
            (resolution, str(start_ms), kind, queue, name, encode(counts), KEPT_SECONDS[resolution] + resolution)
            for (resolution, start_ms, kind, queue, name), counts in entries
        ]
        await self._slow_scripts.run_for_shard("add_statistics", _KEY, pack(packed), is_repeatable=False)

    async def read_statistics(self, which: StatisticsQuery, limit: int) -> list[StatisticsEntry]:
        found: list[StatisticsEntry] = []
        name = [] if which.name is None else [which.name]
        for starts in chunks(which.starts, PAGE_PERIODS):
            packed = (pack(list(map(str, starts))), pack(sorted(set(which.queues))), pack(name), limit - len(found))
            rows = await self._slow_scripts.run_for_shard(
                "read_statistics", _KEY, which.resolution, int(which.kind), *packed
            )
            found += (_entry(which, *row) for row in zip(*[iter(rows)] * 4, strict=True))
            if len(found) >= limit:
                break
        return sorted(found)[:limit]

    async def forget_statistics(self, limit: int) -> int:  # noqa: ARG002 - part of the verb
        return 0


def _entry(which: StatisticsQuery, start_ms: bytes, queue: bytes, name: bytes, counts: bytes) -> StatisticsEntry:
    return which.entry(int(start_ms), queue.decode(), name.decode(), counts.decode())

"""Worker reports, kept until they expire."""

from __future__ import annotations

from pinlater.server.backends.records import MAX_ANSWER_BYTES, MAX_REPORTS, KeptReport
from pinlater.server.backends.redis.script_calls import ScriptRunner

_KEY = "reports"
"""Name of the key of the shard that holds them."""


class RedisReports:
    """The part of a shard that keeps worker reports."""

    _slow_scripts: ScriptRunner

    async def store_report(self, worker_id: str, report: bytes, keep_ms: int) -> None:
        await self._slow_scripts.run_for_shard("store_report", _KEY, worker_id, report, keep_ms)

    async def reports(self, max_bytes: int = MAX_ANSWER_BYTES) -> list[KeptReport]:
        found: list[bytes] = await self._slow_scripts.run_for_shard("read_reports", _KEY, MAX_REPORTS, max_bytes)
        return [_parse(worker, stored) for worker, stored in zip(found[::2], found[1::2], strict=True)]


def _parse(worker: bytes, stored: bytes) -> KeptReport:
    reported_at_ms, _, report = stored.partition(b" ")
    return KeptReport(worker.decode(), report, int(reported_at_ms))

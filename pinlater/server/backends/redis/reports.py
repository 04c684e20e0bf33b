"""Worker reports, kept until they expire."""

from __future__ import annotations

from pinlater.server.backends.records import MAX_REPORTS, KeptReport
from pinlater.server.backends.redis.script_calls import ScriptRunner

_KEY = "reports"
"""Name of the key of the shard that holds them."""


async def store_report(scripts: ScriptRunner, worker_id: str, report: bytes, keep_ms: int) -> None:
    """Replace the report of a worker, or delete it if ``keep_ms`` is 0; also delete some expired reports."""
    await scripts.run_for_shard("store_report", _KEY, worker_id, report, keep_ms)


async def read_reports(scripts: ScriptRunner, max_bytes: int) -> list[KeptReport]:
    """Return the reports that have not expired, up to ``max_bytes``."""
    found: list[bytes] = await scripts.run_for_shard("read_reports", _KEY, MAX_REPORTS, max_bytes)
    return [_parse(worker, stored) for worker, stored in zip(found[::2], found[1::2], strict=True)]


def _parse(worker: bytes, stored: bytes) -> KeptReport:
    reported_at_ms, _, report = stored.partition(b" ")
    return KeptReport(worker.decode(), report, int(reported_at_ms))

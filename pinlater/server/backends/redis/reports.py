"""What workers have reported of themselves: kept as it comes, for as long as they say."""

from __future__ import annotations

from pinlater.server.backends.records import MAX_REPORTS, KeptReport
from pinlater.server.backends.redis.script_calls import Asker

PLACE = "reports"
"""What an asker is asked about here, in the place of a queue."""


async def keep(asker: Asker, worker_id: str, report: bytes, keep_ms: int) -> None:
    """Keep a report, or none, and forget some of the workers that have gone without a word."""
    await asker.ask("keep_report", PLACE, worker_id, report, keep_ms)


async def read(asker: Asker, max_bytes: int) -> list[KeptReport]:
    """Return the reports that have not expired, as far as they fit."""
    found: list[bytes] = await asker.ask("reports", PLACE, MAX_REPORTS, max_bytes)
    return [_report(worker, kept) for worker, kept in zip(found[::2], found[1::2], strict=True)]


def _report(worker: bytes, kept: bytes) -> KeptReport:
    reported_at_ms, _, report = kept.partition(b" ")
    return KeptReport(worker.decode(), report, int(reported_at_ms))

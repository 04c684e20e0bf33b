"""The part of a store that keeps the reports of workers."""

from __future__ import annotations

from typing import Protocol

from pinlater.server.backends.records import MAX_ANSWER_BYTES, KeptReport


class ReportStore(Protocol):
    """Stores the reports of workers; see ``Store`` for what holds for every verb."""

    async def store_report(self, worker_id: str, report: bytes, keep_ms: int) -> None:
        """Store the report of a worker for ``keep_ms``, or delete it if that is 0; also delete some expired reports.

        Ids are 1 to ``MAX_WORKER_ID_CHARACTERS`` characters without NUL, and compared character by character. A report
        is lost with its shard; the worker will send another one.

        State: jobs unchanged.
        Fence: none; the last report counts.
        Repeat: safe.
        """

    async def reports(self, max_bytes: int = MAX_ANSWER_BYTES) -> list[KeptReport]:
        """Return the reports that have not expired, one for each worker, those that expire last first.

        There are at most ``MAX_REPORTS``, with at most ``max_bytes`` in all.
        """

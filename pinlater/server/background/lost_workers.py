"""Mark workers whose connection ended without notice as lost, sooner than their silence would show it."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import NamedTuple, NoReturn

from pinlater.protocol.codec import Codec
from pinlater.protocol.guard import MalformedMessage
from pinlater.protocol.messages import PinLaterWorker
from pinlater.server.backends.server_store import ServerStore
from pinlater.server.broker.parking import LastReport

log = logging.getLogger(__name__)

REPORT_SECONDS = 6.5
"""A live worker has reported again after this time, over whatever connection, since it reports every 5 seconds."""

RECONNECT_SECONDS = 3.0
"""A worker also has at least this long to make another connection before it counts as lost."""

_FEWEST_REPORTS = 2
"""A connection with fewer reports says nothing when it ends: its client may make one for each report."""

_MOST_WAITING = 10_000


class _EndedConnection(NamedTuple):
    """A connection that has ended: the last report over it, and when, epoch milliseconds and monotonic seconds."""

    report: LastReport
    ended_ms: int
    due_at: float


class LostWorkers:
    """Marks the reports of workers that are lost.

    A worker that ends says so, and its report is deleted. When a worker is killed, its connection just ends. If no
    server has received its next report when that is overdue, the stored report is marked with the time at which the
    connection ended. If the worker reports after all, the new report replaces the marked one.

    Args:
        backend: the store, which keeps the reports.
    """

    def __init__(self, backend: ServerStore) -> None:
        self._backend = backend
        self._now_ms = backend.now_ms
        self._codec = Codec()
        self._waiting: dict[str, _EndedConnection] = {}
        self._news = asyncio.Event()

    def connection_ended(self, last: LastReport) -> None:
        """Check after a while whether the worker whose connection has ended is lost."""
        if last.number < _FEWEST_REPORTS or len(self._waiting) >= _MOST_WAITING:
            return
        due_at = max(time.monotonic() + RECONNECT_SECONDS, last.at + REPORT_SECONDS)
        self._waiting[last.worker_id] = _EndedConnection(last, self._now_ms(), due_at)
        self._news.set()

    async def run(self) -> NoReturn:
        """Mark lost workers until cancelled; after a failure, which is logged, only their silence shows it."""
        while True:
            if not self._waiting:
                self._news.clear()
                await self._news.wait()
            await asyncio.sleep(max(min(one.due_at for one in self._waiting.values()) - time.monotonic(), 0.0))
            now = time.monotonic()
            due = {worker: one for worker, one in self._waiting.items() if one.due_at <= now}
            for worker in due:
                del self._waiting[worker]
            try:
                await self._mark(due)
            except Exception:
                log.debug("lost workers could not be marked", exc_info=True)

    async def _mark(self, ended: dict[str, _EndedConnection]) -> None:
        """Mark those of the workers that have not reported again since their connection ended."""
        for kept in await self._backend.reports():
            one = ended.get(kept.worker_id)
            if one is None:
                continue
            try:
                worker = self._codec.decode_struct(PinLaterWorker, kept.report)
            except MalformedMessage:
                continue
            if worker.sentAtTimestampMillis != one.report.sent_ms:  # it has reported again
                continue
            worker.lostAtTimestampMillis, worker.sentAtTimestampMillis = one.ended_ms, None
            log.info("the connection of worker %s ended, and it has not reported since", kept.worker_id)
            await self._backend.store_report(kept.worker_id, self._codec.encode_struct(worker), one.report.keep_ms)

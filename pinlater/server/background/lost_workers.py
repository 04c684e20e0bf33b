"""Mark workers whose connection ended without a word, sooner than their silence shows."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from pinlater.protocol.codec import Codec
from pinlater.protocol.guard import MalformedMessage
from pinlater.protocol.messages import PinLaterWorker
from pinlater.server.backends.store import Store
from pinlater.server.broker.parking import LastReport

log = logging.getLogger(__name__)

REPORT_SECONDS = 6.5
"""A worker that lives has reported again after so long, over whatever connection: it does so every 5 seconds."""

RECONNECT_SECONDS = 3.0
"""And it has had so much time for another connection."""

_FEWEST_REPORTS = 2
"""Who makes a connection for each report ends one each time."""

_MOST_WAITING = 10_000


class _EndedConnection(NamedTuple):
    """A connection that has ended: the last report over it, and when, epoch milliseconds and monotonic seconds."""

    report: LastReport
    ended_ms: int
    due_at: float


class LostWorkers:
    """Marks the reports of workers that are lost.

    A worker that ends says so, and its report is deleted. The connection of one that is killed just ends. If no other
    report has come when the next one is overdue, over this or another server, the stored one gets the time when that
    happened. The next report, if there is one after all, replaces it.

    Args:
        backend: the store, which keeps the reports.
        now_ms: the clock of the store.
    """

    def __init__(self, backend: Store, now_ms: Callable[[], int]) -> None:
        self._backend = backend
        self._now_ms = now_ms
        self._codec = Codec()
        self._waiting: dict[str, _EndedConnection] = {}
        self._news = asyncio.Event()

    def connection_ended(self, last: LastReport) -> None:
        """Look after a while whether a worker is lost whose connection has ended."""
        if last.number < _FEWEST_REPORTS or len(self._waiting) >= _MOST_WAITING:
            return
        due_at = max(time.monotonic() + RECONNECT_SECONDS, last.at + REPORT_SECONDS)
        self._waiting[last.worker_id] = _EndedConnection(last, self._now_ms(), due_at)
        self._news.set()

    async def run(self) -> NoReturn:
        """Mark lost workers until cancelled; a failure is logged, and leaves it to their silence."""
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
        """Mark those of some workers whose last report is still that of the connection that ended."""
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

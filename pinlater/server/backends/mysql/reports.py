"""What workers have reported of themselves: kept as it comes, for as long as they say."""

from __future__ import annotations

from pinlater.server.backends.mysql.connection import Connection, Result
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.records import MAX_REPORTS, KeptReport

_FORGOTTEN_AT_ONCE = 100


class Reports:
    """The reports of a shard.

    Args:
        database: of the shard.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def keep(self, worker_id: str, report: bytes, keep_ms: int) -> None:
        """Keep a report, or none, and forget some of the workers that have gone without a word."""
        bind, now, worker = self._database.queries.bind, self._database.now_ms(), worker_id.encode()
        if keep_ms:
            change = bind(
                "keep_report", worker=worker, now=now, expires_at=now + keep_ms, bytes=len(report), report=report
            )
        else:
            change = bind("forget_report", worker=worker)
        look = bind("expired_reports", now=now, limit=_FORGOTTEN_AT_ONCE)
        [(expired, _, _), _] = await self._run(look, change)
        if expired:  # by a transaction that holds nothing else, or two might wait for each other
            await self._run(bind("forget_expired_reports", workers=[worker for (worker,) in expired], now=now))

    async def _run(self, *statements: bytes) -> list[Result]:
        return await self._database.change(lambda transaction: transaction.run_to_end(*statements), is_repeatable=True)

    async def read(self, max_bytes: int) -> list[KeptReport]:
        """Return the reports that have not expired, as far as they fit."""
        now = self._database.now_ms()

        async def look(connection: Connection) -> list[KeptReport]:
            bind, left = self._database.queries.bind, max_bytes
            [(sizes, _, _)] = await connection.run(bind("sizes_of_reports", now=now, limit=MAX_REPORTS))
            workers: list[bytes] = []
            for worker, size in sizes:
                left -= size
                if left < 0:
                    break
                workers.append(worker)
            [(rows, _, _)] = await connection.run(bind("reports", workers=workers))
            by_worker = {row[0]: row for row in rows}  # one may have ended meanwhile
            ordered = (by_worker[worker] for worker in workers if worker in by_worker)
            return [KeptReport(worker.decode(), report, reported_at) for worker, report, reported_at in ordered]

        return await self._database.read(look)

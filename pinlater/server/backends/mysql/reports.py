"""Worker reports, kept until they expire."""

from __future__ import annotations

from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.records import MAX_ANSWER_BYTES, MAX_REPORTS, KeptReport

_MAX_EXPIRED = 100
"""Most expired reports to delete at once."""


class MysqlReports:
    """The part of a shard that keeps worker reports."""

    _database: Database

    async def store_report(self, worker_id: str, report: bytes, keep_ms: int) -> None:
        bind, now, worker = self._database.queries.bind, self._database.now_ms(), worker_id.encode()
        if keep_ms:
            change = bind(
                "store_report", worker=worker, now=now, expires_at=now + keep_ms, bytes=len(report), report=report
            )
        else:
            change = bind("delete_report", worker=worker)
        [(expired, _, _), _] = await self._database.execute(
            bind("expired_reports", now=now, limit=_MAX_EXPIRED), change
        )
        if expired:  # in a transaction with no other locks, or two such transactions might deadlock
            workers = [worker for (worker,) in expired]
            await self._database.execute(bind("delete_expired_reports", workers=workers, now=now))

    async def reports(self, max_bytes: int = MAX_ANSWER_BYTES) -> list[KeptReport]:
        bind, now = self._database.queries.bind, self._database.now_ms()

        async def read(connection: MysqlConnection) -> list[KeptReport]:
            bytes_left = max_bytes
            [(sizes, _, _)] = await connection.run(bind("report_sizes", now=now, limit=MAX_REPORTS))
            workers: list[bytes] = []
            for worker, size in sizes:
                bytes_left -= size
                if bytes_left < 0:
                    break
                workers.append(worker)
            if not workers:
                return []
            [(rows, _, _)] = await connection.run(bind("reports", workers=workers))
            by_worker = {row[0]: row for row in rows}  # one may have been deleted meanwhile
            ordered = (by_worker[worker] for worker in workers if worker in by_worker)
            return [KeptReport(worker.decode(), report, reported_at) for worker, report, reported_at in ordered]

        return await self._database.read(read)

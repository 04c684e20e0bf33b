"""Worker reports, kept until they expire."""

from __future__ import annotations

from pinlater.server.backends.mysql.connection import MysqlConnection, StatementResult
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.records import MAX_REPORTS, KeptReport

_MAX_EXPIRED = 100
"""Most expired reports to delete at once."""


async def store_report(database: Database, worker_id: str, report: bytes, keep_ms: int) -> None:
    """Replace the report of a worker, or delete it if ``keep_ms`` is 0; also delete some expired reports."""
    bind, now, worker = database.queries.bind, database.now_ms(), worker_id.encode()
    if keep_ms:
        change = bind(
            "store_report", worker=worker, now=now, expires_at=now + keep_ms, bytes=len(report), report=report
        )
    else:
        change = bind("delete_report", worker=worker)
    [(expired, _, _), _] = await _run(database, bind("expired_reports", now=now, limit=_MAX_EXPIRED), change)
    if expired:  # in a transaction with no other locks, or two such transactions might deadlock
        await _run(database, bind("delete_expired_reports", workers=[worker for (worker,) in expired], now=now))


async def _run(database: Database, *statements: bytes) -> list[StatementResult]:
    return await database.change(lambda transaction: transaction.run_and_commit(*statements), is_repeatable=True)


async def read_reports(database: Database, max_bytes: int) -> list[KeptReport]:
    """Return the reports that have not expired, up to ``max_bytes``."""
    now = database.now_ms()

    async def read(connection: MysqlConnection) -> list[KeptReport]:
        bind, bytes_left = database.queries.bind, max_bytes
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

    return await database.read(read)

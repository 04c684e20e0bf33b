"""Whether a worker is silent, judged by its last report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pinlater.model.workers import WorkerProcess, WorkerReport

SILENT_SECONDS = 12.0
"""Workers report every 5 s; one that has missed two reports is silent."""


def is_silent(report: WorkerReport, now_ms: float) -> bool:
    """Return whether a worker has missed its reports, or its connection was lost without a last report."""
    is_late = report.reported_ms is not None and now_ms - report.reported_ms > SILENT_SECONDS * 1000
    return is_late or report.lost_ms is not None


def serving_processes(reports: Iterable[WorkerReport], now_ms: float) -> Iterator[WorkerProcess]:
    """Yield the job processes that take jobs: those of workers that are neither draining nor silent."""
    for report in reports:
        if not report.is_draining and not is_silent(report, now_ms):
            yield from report.processes


def silent_since_ms(report: WorkerReport) -> int | None:
    """Return when a worker was last heard from, epoch milliseconds by the store's clock; None if unknown."""
    return report.reported_ms if report.lost_ms is None else report.lost_ms

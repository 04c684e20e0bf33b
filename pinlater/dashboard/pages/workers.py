"""Workers page: hosts, workers, job processes and their running jobs."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from pinlater.client.unknown_classes import deployment_for, jobs_of_class, unknown_classes
from pinlater.dashboard.app_state import AppState, get_app_state, known_queue
from pinlater.dashboard.claim_holders import MOST_JOBS
from pinlater.dashboard.figures import PARKED
from pinlater.dashboard.forms import RequestRefused, query_text
from pinlater.dashboard.render import page
from pinlater.dashboard.workforce import worker_overview
from pinlater.model.silence import is_silent
from pinlater.triage.findings import Finding
from pinlater.triage.thresholds import Thresholds

_MOST_PROCESSES = 200
"""Processes on one page."""
_MOST_WORKERS = 200
_MOST_SHOWN = 20
"""Jobs shown for one process."""
_PATIENCE_SECONDS = 0.03


class _Total(NamedTuple):
    """Totals over all workers, including those not shown."""

    workers: int
    processes: int
    busy: int
    memory: int


async def _findings(app: AppState, worker: str) -> list[Finding]:
    """Return the findings about a worker."""
    found = await app.triage.get_within(_PATIENCE_SECONDS) or ()
    return [finding for finding in found if finding.worker == worker]


async def workers(request: Request) -> Response:
    """Show all workers, those of one queue, or a single worker."""
    app = get_app_state(request)
    queue, chosen = query_text(request, "queue", 200), query_text(request, "worker", 300)
    if queue:
        await known_queue(app, queue)
    reports = await app.reports.get("")
    overview = worker_overview(reports, await app.claims.get(queue), queue)
    recent = app.history.recent()
    total = _Total(len(overview.workers), overview.processes, overview.busy, overview.memory_bytes)
    versions = overview.versions
    if chosen:
        overview.keep_only(chosen)
        if not overview.hosts:
            raise RequestRefused(404, "this worker no longer reports to the server", "/workers")
    hidden = overview.fit_page(_MOST_WORKERS, _MOST_PROCESSES)
    return page(
        request,
        "workers.html",
        queue=queue,
        chosen=chosen,
        overview=overview,
        total=total,
        versions=versions,
        hidden=hidden,
        findings=[(finding, None) for finding in await _findings(app, chosen)] if chosen else [],
        most_processes=_MOST_PROCESSES,
        most_shown=_MOST_SHOWN,
        most_jobs=MOST_JOBS,
        unknown=unknown_classes(reports, queue or None),
        jobs_of_class=jobs_of_class,
        deployment_for=deployment_for,
        silent={report.id for report in reports if is_silent(report, app.clock.now() * 1000)},
        clock_off_ms=int(Thresholds().clock_seconds * 1000),
        parked=None if recent is None else int(recent[2].gauges.get(PARKED, 0)),
    )

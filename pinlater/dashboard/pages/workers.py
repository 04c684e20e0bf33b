"""Workers: who there is, and who runs what now."""

from __future__ import annotations

import time
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from pinlater.client.unknown_classes import unknown_classes
from pinlater.dashboard.app_state import board_of, known_queue
from pinlater.dashboard.claim_holders import MOST_JOBS
from pinlater.dashboard.figures import PARKED
from pinlater.dashboard.forms import Refused, asked
from pinlater.dashboard.render import page
from pinlater.dashboard.workforce import workforce_of
from pinlater.model.records import SILENT_SECONDS

_MOST_PROCESSES = 200
"""On one page."""
_MOST_WORKERS = 200
_MOST_SHOWN = 20
"""Jobs of one process."""


class _Total(NamedTuple):
    """Sums over all workers, also those that a page has no room for."""

    workers: int
    processes: int
    busy: int
    memory: int


async def workers(request: Request) -> Response:
    """Show hosts, their workers and processes, and the jobs of each; or one worker alone."""
    board = board_of(request)
    queue, chosen = asked(request, "queue", 200), asked(request, "worker", 300)
    if queue:
        await known_queue(board, queue)
    reports = await board.reports.get("")
    force = workforce_of(reports, await board.claims.get(queue), queue)
    recent = board.history.recent()
    total = _Total(len(force.workers), force.processes, force.busy, force.memory_bytes)
    versions = force.versions
    if chosen:
        force.keep(chosen)
        if not force.hosts:
            raise Refused(404, "this worker does not report itself any more", "/workers")
    hidden = force.fold(_MOST_WORKERS, _MOST_PROCESSES)
    return page(
        request,
        "workers.html",
        queue=queue,
        chosen=chosen,
        force=force,
        total=total,
        versions=versions,
        hidden=hidden,
        most_processes=_MOST_PROCESSES,
        most_shown=_MOST_SHOWN,
        most_jobs=MOST_JOBS,
        unknown=unknown_classes(reports, queue or None),
        silent_ms=int((time.time() - SILENT_SECONDS) * 1000),
        parked=None if recent is None else int(recent[2].gauges.get(PARKED, 0)),
    )

"""Failures page: failed jobs grouped by error."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pinlater.dashboard.app_state import get_app_state, known_queue
from pinlater.dashboard.forms import query_text
from pinlater.dashboard.render import page

_MOST_GROUPS = 100


async def failed(request: Request) -> Response:
    """Show groups of failed jobs, the largest first, and periodic jobs whose last run failed."""
    app = get_app_state(request)
    queue = query_text(request, "queue", 200)
    if queue:
        await known_queue(app, queue)
    found = await app.failures.get(queue)
    periodic = await app.periodic.get(queue)
    failing = [job for job in periodic.jobs if job.failures]
    return page(
        request,
        "failed.html",
        queue=queue,
        found=found,
        groups=found.groups[:_MOST_GROUPS],
        hidden=max(len(found.groups) - _MOST_GROUPS, 0),
        failing=failing[:_MOST_GROUPS],
        unseen=sorted(periodic.left_out),
    )

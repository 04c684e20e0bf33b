"""Failed jobs by what went wrong."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pinlater.dashboard.app_state import board_of, known_queue
from pinlater.dashboard.forms import asked
from pinlater.dashboard.render import page

_MOST_GROUPS = 100


async def failed(request: Request) -> Response:
    """Show the groups, the largest first, and the periodic jobs whose last run has failed."""
    board = board_of(request)
    queue = asked(request, "queue", 200)
    if queue:
        await known_queue(board, queue)
    found = await board.failures.get(queue)
    periodic = await board.periodic.get(queue)
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

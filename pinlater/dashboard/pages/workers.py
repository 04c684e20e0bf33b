"""Workers: who runs what now."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pinlater.dashboard.board import board_of, known_queue
from pinlater.dashboard.crews import MOST_JOBS, MOST_SHOWN
from pinlater.dashboard.figures import PARKED
from pinlater.dashboard.forms import asked
from pinlater.dashboard.render import page

_MOST_CREWS = 200


async def workers(request: Request) -> Response:
    """Show hosts, their processes, and the jobs of each."""
    board = board_of(request)
    queue = asked(request, "queue", 200)
    if queue:
        await known_queue(board, queue)
    force = await board.workforce.get(queue)
    recent = board.history.recent()
    return page(
        request,
        "workers.html",
        queue=queue,
        force=force,
        crews=sum(len(host.crews) for host in force.hosts),
        most_crews=_MOST_CREWS,
        most_shown=MOST_SHOWN,
        most_jobs=MOST_JOBS,
        parked=None if recent is None else int(recent[2].gauges.get(PARKED, 0)),
    )

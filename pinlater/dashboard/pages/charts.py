"""The numbers behind the charts."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pinlater.dashboard.app_state import board_of
from pinlater.dashboard.forms import asked
from pinlater.dashboard.history import FIELDS, LENGTH, SERVER_FIELDS


async def charts(request: Request) -> Response:
    """Return the last hour of a queue, or of the server if none is named: times in epoch seconds, then the fields."""
    history = board_of(request).history
    queue = asked(request, "queue", 200)
    times = history.moments()
    if queue:
        lines = {name: history.line(queue, name, LENGTH) or [None] * len(times) for name in FIELDS}
    else:
        lines = {name: history.server_line(name) for name in SERVER_FIELDS}
    return JSONResponse({"times": times, **lines})

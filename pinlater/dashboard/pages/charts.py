"""Data of the charts."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pinlater.dashboard.app_state import get_app_state
from pinlater.dashboard.forms import query_text
from pinlater.dashboard.history import FIELDS, LENGTH, SERVER_FIELDS


async def charts(request: Request) -> Response:
    """Return the last hour of a queue, or of the server if none is named: times in epoch seconds, and the fields."""
    history = get_app_state(request).history
    queue = query_text(request, "queue", 200)
    times = history.moments()
    if queue:
        lines = {name: history.line(queue, name, LENGTH) or [None] * len(times) for name in FIELDS}
    else:
        lines = {name: history.server_line(name) for name in SERVER_FIELDS}
    return JSONResponse({"times": times, **lines})

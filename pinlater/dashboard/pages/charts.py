"""Data of the charts."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pinlater.dashboard.app_state import get_app_state
from pinlater.dashboard.chart_data import RANGES, ChartRange
from pinlater.dashboard.forms import RequestRefused, query_text
from pinlater.dashboard.history import SERVER_FIELDS


async def charts(request: Request) -> Response:
    """Return the lines of a queue, of all queues, or of the server's last hour, with their times in epoch seconds."""
    app = get_app_state(request)
    queue = request.query_params.get("queue")
    if queue is None:
        lines = {name: app.history.server_line(name) for name in SERVER_FIELDS}
        return JSONResponse({"times": app.history.moments(), **lines})
    data = await app.charts.get(query_text(request, "queue", 200), range_of(request))
    return JSONResponse(data.to_json())


def range_of(request: Request) -> ChartRange:
    """Return the range of time that a request names; the last hour if it names none.

    Raises:
        RequestRefused: there is no such range.
    """
    name = query_text(request, "range", 10) or "1h"
    if name not in RANGES:
        raise RequestRefused(400, f"there is no range {name}; use one of {', '.join(RANGES)}")
    return RANGES[name]

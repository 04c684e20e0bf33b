"""Jobs page: the jobs of a queue in one state."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from pinlater.client.waits import waits_text
from pinlater.dashboard.app_state import AppState, get_app_state
from pinlater.dashboard.count_cache import DISPLAY_STATES, DISPLAY_STATES_BY_NAME, DisplayState
from pinlater.dashboard.failures import error_line
from pinlater.dashboard.first_seen import parse_holder
from pinlater.dashboard.forms import RequestRefused, number, query_text
from pinlater.dashboard.privacy import admit_search
from pinlater.dashboard.render import page
from pinlater.errors import CallTimeout, ContinuationInvalid, UnknownError
from pinlater.model.jobs import Page

PER_PAGE = 50
_TOO_LONG = "the search took too long; use a simpler pattern or choose a priority"


async def jobs(request: Request) -> Response:
    """Show one page of jobs, filtered by priority and body; a continuation leads to the next page."""
    app = get_app_state(request)
    queue, state = query_text(request, "queue", 200), query_text(request, "state", 20) or "pending"
    display_state = DISPLAY_STATES_BY_NAME.get(state)
    if display_state is None:
        raise RequestRefused(400, f"there is no state {state}; use one of {', '.join(DISPLAY_STATES_BY_NAME)}")
    counts = (await app.counts.get([queue])).get(queue) if queue else None
    if counts is None:
        names = sorted(await app.client.queue_names())
        raise RequestRefused(404, f"there is no queue {queue[:100]}") if queue else RequestRefused(400, _choose(names))
    priority, pattern = query_text(request, "priority", 4), query_text(request, "body", 1024)
    if pattern:
        admit_search(request, pattern)
    filters = {"queue": queue, "state": state, "priority": priority, "body": pattern}
    found, status, problem = Page([], None), 200, ""
    try:
        found = await _scan(app, queue, display_state, priority, pattern, query_text(request, "from", 200) or None)
    except ContinuationInvalid:
        raise RequestRefused(400, "this page of the list does not exist", _link(filters)) from None
    except (UnknownError, CallTimeout) as error:
        if not pattern:
            raise
        status, problem = (503, _TOO_LONG) if isinstance(error, CallTimeout) else (400, str(error)[:300])
    return page(
        request,
        "jobs.html",
        status,
        problem=problem,
        queue=queue,
        display_state=display_state,
        display_states=[(one, counts[index]) for index, one in enumerate(DISPLAY_STATES)],
        filters=filters,
        rows=[(info, error_line(info.status), parse_holder(info.claim) if info.claim else None) for info in found.jobs],
        is_first="from" not in request.query_params,
        link=lambda **changes: _link(filters | changes),
        waits_text=waits_text,
        more=found.continuation,
    )


async def _scan(  # noqa: PLR0917 - the fields of the page's form, in their order
    app: AppState, queue: str, display_state: DisplayState, priority: str, pattern: str, continuation: str | None
) -> Page:
    return await (app.searcher if pattern else app.client).scan(
        queue,
        display_state.state,
        priority=int(number("priority", priority, 1, app.options.priority_levels, int)) if priority else None,
        limit=PER_PAGE,
        body_regex=pattern or None,
        continuation=continuation,
        **display_state.filters,
    )


def _link(filters: dict[str, str]) -> str:
    return f"/jobs?{urlencode({name: value for name, value in filters.items() if value})}"


def _choose(names: list[str]) -> str:
    return f"choose a queue: {', '.join(names[:20])}" if names else "there is no queue yet"

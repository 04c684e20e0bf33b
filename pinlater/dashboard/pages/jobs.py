"""Jobs of a queue, a page at a time."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from pinlater.dashboard.app_state import Board, board_of
from pinlater.dashboard.count_cache import BY_NAME, STANDINGS, Standing
from pinlater.dashboard.failures import error_line
from pinlater.dashboard.first_seen import holder_of
from pinlater.dashboard.forms import Refused, asked, number
from pinlater.dashboard.privacy import admit_search
from pinlater.dashboard.render import page
from pinlater.errors import CallTimeout, ContinuationInvalid, UnknownError
from pinlater.model.records import Page

PER_PAGE = 50
_TOO_LONG = "searching took too long; use a simpler pattern, or one priority"


async def jobs(request: Request) -> Response:
    """Show those in one state, by priority and body if asked for; a page follows another by its continuation."""
    board = board_of(request)
    queue, state = asked(request, "queue", 200), asked(request, "state", 20) or "pending"
    standing = BY_NAME.get(state)
    if standing is None:
        raise Refused(400, f"there is no state {state}; use one of {', '.join(BY_NAME)}")
    counts = (await board.census.of([queue])).get(queue) if queue else None
    if counts is None:
        names = sorted(await board.client.queue_names())
        raise Refused(404, f"there is no queue {queue[:100]}") if queue else Refused(400, _choose(names))
    priority, pattern = asked(request, "priority", 4), asked(request, "body", 1024)
    if pattern:
        admit_search(request, pattern)
    filters = {"queue": queue, "state": state, "priority": priority, "body": pattern}
    found, status, problem = Page([], None), 200, ""
    try:
        found = await _scan(board, queue, standing, priority, pattern, asked(request, "from", 200) or None)
    except ContinuationInvalid:
        raise Refused(400, "this page of the list is none that was shown here", _link(filters)) from None
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
        standing=standing,
        standings=[(one, counts[index]) for index, one in enumerate(STANDINGS)],
        filters=filters,
        rows=[(info, error_line(info.status), holder_of(info.claim) if info.claim else None) for info in found.jobs],
        is_first="from" not in request.query_params,
        link=lambda **changes: _link(filters | changes),
        more=found.continuation,
    )


async def _scan(  # noqa: PLR0917 - the fields of the page's form, in their order
    board: Board, queue: str, standing: Standing, priority: str, pattern: str, continuation: str | None
) -> Page:
    return await (board.searcher if pattern else board.client).scan(
        queue,
        standing.state,
        priority=int(number("priority", priority, 1, board.options.priority_levels, int)) if priority else None,
        future=standing.is_future,
        limit=PER_PAGE,
        body_regex=pattern or None,
        continuation=continuation,
    )


def _link(filters: dict[str, str]) -> str:
    return f"/jobs?{urlencode({name: value for name, value in filters.items() if value})}"


def _choose(names: list[str]) -> str:
    return f"choose a queue: {', '.join(names[:20])}" if names else "there is no queue yet"

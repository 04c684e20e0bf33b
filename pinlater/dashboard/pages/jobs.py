"""Jobs page: the jobs of a queue in one state."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from pinlater.client.waits import waits_text
from pinlater.dashboard.app_state import AppState, get_app_state
from pinlater.dashboard.count_cache import DISPLAY_STATES
from pinlater.dashboard.forms import RequestRefused, query_text
from pinlater.dashboard.job_query import JobQuery, from_text, read_from, read_query
from pinlater.dashboard.job_rows import JobRow, read_rows
from pinlater.dashboard.privacy import admit_search
from pinlater.dashboard.render import page
from pinlater.errors import CallTimeout, ContinuationInvalid, UnknownError
from pinlater.model.jobs import Page
from pinlater.model.state import JobState

PER_PAGE = 50
_MOST_TRAIL = 20
"""Pages that users can go back."""

_MOST_CONTINUATION = 200
_MOST_RUNS = 5
_TRAIL_SEPARATOR = "~"

_TOO_LONG = "the search took too long; use a simpler pattern or choose a priority"


class SearchProgress(NamedTuple):
    """How far a search of bodies has got.

    Attributes:
        looked_at: jobs that it has searched, for this page and those before.
        total: approximate number of all jobs.
        is_over: whether it has searched all jobs.
        is_cut: whether it stopped before the page was full.
    """

    looked_at: int
    total: int
    is_over: bool
    is_cut: bool


async def jobs(request: Request) -> Response:
    """Show one page of jobs; a continuation leads to the next page, and a trail of them to the previous pages."""
    app = get_app_state(request)
    query = read_query(lambda name, most: query_text(request, name, most), app.options.priority_levels)
    counts = (await app.counts.get([query.queue])).get(query.queue) if query.queue else None
    if counts is None:
        names = sorted(await app.client.queue_names())
        if query.queue in names:
            raise CallTimeout(f"counting the jobs of queue {query.queue} takes long")
        if query.queue:
            raise RequestRefused(404, f"there is no queue {query.queue[:100]}")
        raise RequestRefused(400, _choose(names))
    if query.regex:
        admit_search(request, f"{query.job} {query.argument}".strip())
    start = query_text(request, "from", _MOST_CONTINUATION)
    continuation, looked_before = read_from(start)
    trail = query_text(request, "trail", _MOST_TRAIL * (_MOST_CONTINUATION + 1))
    found, status, problem = Page([], None), 200, ""
    try:
        found = await _scan(app, query, continuation or None)
    except ContinuationInvalid:
        raise RequestRefused(400, "this page of the list does not exist", query.link()) from None
    except (UnknownError, CallTimeout) as error:
        if not (query.regex or query.key):
            raise
        status, problem = (503, _TOO_LONG) if isinstance(error, CallTimeout) else (400, str(error)[:300])
    count = counts[DISPLAY_STATES.index(query.display_state)]
    return page(
        request,
        "jobs.html",
        status,
        problem=problem,
        query=query,
        queue=query.queue,
        display_state=query.display_state,
        display_states=[(one, counts[index]) for index, one in enumerate(DISPLAY_STATES)],
        count=count,
        progress=await _progress(app, query, found, looked_before, count),
        rows=await read_rows(app, found.jobs),
        runs=await _runs_of_key(app, query),
        is_first=not start,
        previous=_previous(query, trail),
        following=_following(query, start, trail, found, looked_before),
        waits_text=waits_text,
        link=query.link,
    )


async def _scan(app: AppState, query: JobQuery, continuation: str | None) -> Page:
    client = app.searcher if query.regex else app.client
    return await client.scan(
        query.queue,
        query.display_state.state,
        limit=PER_PAGE,
        continuation=continuation,
        oldest_first=query.is_oldest_first,
        **query.filters,
    )


async def _runs_of_key(app: AppState, query: JobQuery) -> list[JobRow]:
    """Return the running jobs of the key whose waiting jobs are listed: the others wait for them."""
    if not query.key or query.display_state.state is not JobState.PENDING:
        return []
    found = await app.client.scan(query.queue, JobState.IN_PROGRESS, limit=_MOST_RUNS, key=query.key)
    return await read_rows(app, found.jobs)


def _previous(query: JobQuery, trail: str) -> str:
    """Return the path of the previous page; the first page if the trail is lost."""
    before, _, start = trail.rpartition(_TRAIL_SEPARATOR)
    return query.link(**{"from": start, "trail": before})


def _following(query: JobQuery, start: str, trail: str, found: Page, looked_before: int) -> str:
    """Return the path of the next page; empty if there is none."""
    if found.continuation is None:
        return ""
    starts = [one for one in [*trail.split(_TRAIL_SEPARATOR), start] if one][-_MOST_TRAIL:]
    return query.link(**{"from": from_text(found, looked_before), "trail": _TRAIL_SEPARATOR.join(starts)})


async def _progress(
    app: AppState, query: JobQuery, found: Page, looked_before: int, count: int
) -> SearchProgress | None:
    """Return how far a search of bodies has got; None if bodies are not searched, or the server does not say."""
    if found.looked_at is None:
        return None
    looked_at = looked_before + found.looked_at
    if query.priority or query.group:  # the page's counts are of all jobs in the state
        count = await app.client.count(query.queue, query.display_state.state, **query.filters | {"body_regex": None})
    is_over = found.continuation is None
    return SearchProgress(looked_at, max(count, looked_at), is_over, not is_over and len(found.jobs) < PER_PAGE)


def _choose(names: list[str]) -> str:
    return f"choose a queue: {', '.join(names[:20])}" if names else "there is no queue yet"

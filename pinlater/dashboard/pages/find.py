"""Search box: a descriptor opens its job, a queue name its queue; any other text is searched for in bodies."""

from __future__ import annotations

import asyncio
import re
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pinlater.dashboard.app_state import AppState, get_app_state
from pinlater.dashboard.count_cache import DISPLAY_STATES, DisplayState
from pinlater.dashboard.forms import RequestRefused, query_text
from pinlater.dashboard.pages.job import MOST_DESCRIPTOR, path_of
from pinlater.dashboard.privacy import admit_search
from pinlater.dashboard.render import page
from pinlater.errors import QueueNotFound, ServerError, UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import error_line
from pinlater.model.jobs import JobInfo

_SEARCH_SECONDS = 8.0
_PER_STATE = 10
_MOST_FOUND = 100


class FoundJob(NamedTuple):
    """A job whose body contains the text."""

    queue: str
    display_state: DisplayState
    info: JobInfo
    line: str


class SearchResult(NamedTuple):
    """The jobs found, and the queues not searched completely."""

    jobs: list[FoundJob]
    unsearched: list[str]


async def find(request: Request) -> Response:
    """Redirect to the job or queue, or list the jobs found."""
    app, text = get_app_state(request), query_text(request, "q", MOST_DESCRIPTOR)
    if not text:
        return RedirectResponse("/", 303)
    if _is_descriptor(text):
        return RedirectResponse(path_of(text), 303)
    names = await app.client.queue_names()
    if text in names:
        return RedirectResponse(f"/queues/{text}", 303)
    admit_search(request, text)
    if app.search.locked():
        raise RequestRefused(429, "another search is running; try again in a few seconds")
    similar = sorted(name for name in names if text.lower() in name.lower())[:20]
    async with app.search:
        found = await _search(app, sorted(names), re.escape(text))
    return page(request, "find.html", text=text, similar=similar, found=found, seconds=_SEARCH_SECONDS)


def _is_descriptor(text: str) -> bool:
    try:
        JobDescriptor.parse(text)
    except UnknownError:
        return False
    return True


async def _search(app: AppState, queues: list[str], pattern: str) -> SearchResult:
    """Search one queue after the other; the server gives each call two seconds, and the whole search has eight."""
    found: list[FoundJob] = []
    unsearched: dict[str, None] = dict.fromkeys(queues)
    try:
        async with asyncio.timeout(_SEARCH_SECONDS):
            for queue in queues:
                if len(found) >= _MOST_FOUND:
                    break
                if await _search_queue(app, queue, pattern, found):
                    del unsearched[queue]
    except TimeoutError:
        pass
    return SearchResult(found, list(unsearched))


async def _search_queue(app: AppState, queue: str, pattern: str, found: list[FoundJob]) -> bool:
    is_whole = True
    for display_state in DISPLAY_STATES:
        try:
            scanned = await app.searcher.scan(
                queue, display_state.state, limit=_PER_STATE, body_regex=pattern, **display_state.filters
            )
        except QueueNotFound:
            return True
        except ServerError:  # the search took too long there
            is_whole = False
            continue
        found.extend(FoundJob(queue, display_state, info, error_line(info.status)) for info in scanned.jobs)
        is_whole = is_whole and scanned.continuation is None
    return is_whole

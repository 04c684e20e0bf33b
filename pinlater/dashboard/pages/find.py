"""The look-up box: a descriptor leads to its job, a queue's name to the queue, other text to bodies that have it."""

from __future__ import annotations

import asyncio
import re
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pinlater.dashboard.app_state import Board, board_of
from pinlater.dashboard.count_cache import STANDINGS, Standing
from pinlater.dashboard.failures import error_line
from pinlater.dashboard.forms import Refused, asked
from pinlater.dashboard.pages.job import MOST_DESCRIPTOR, path_of
from pinlater.dashboard.privacy import admit_search
from pinlater.dashboard.render import page
from pinlater.errors import QueueNotFound, ServerError, UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.records import JobInfo

_SEARCH_SECONDS = 8.0
_PER_STANDING = 10
_MOST_FOUND = 100


class Found(NamedTuple):
    """A job whose body has the text."""

    queue: str
    standing: Standing
    info: JobInfo
    line: str


class Search(NamedTuple):
    """What was found, and which queues were not searched to the end."""

    jobs: list[Found]
    unsearched: list[str]


async def find(request: Request) -> Response:
    """Go there, or list what was found."""
    board, text = board_of(request), asked(request, "q", MOST_DESCRIPTOR)
    if not text:
        return RedirectResponse("/", 303)
    if _is_descriptor(text):
        return RedirectResponse(path_of(text), 303)
    names = await board.client.queue_names()
    if text in names:
        return RedirectResponse(f"/queues/{text}", 303)
    admit_search(request, text)
    if board.search.locked():
        raise Refused(429, "another search is under way; try again in a few seconds")
    close = sorted(name for name in names if text.lower() in name.lower())[:20]
    async with board.search:
        found = await _search(board, sorted(names), re.escape(text))
    return page(request, "find.html", text=text, close=close, found=found, seconds=_SEARCH_SECONDS)


def _is_descriptor(text: str) -> bool:
    try:
        JobDescriptor.parse(text)
    except UnknownError:
        return False
    return True


async def _search(board: Board, queues: list[str], pattern: str) -> Search:
    """Search one queue after the other; the server gives each step two seconds, and all have eight."""
    found: list[Found] = []
    unsearched: dict[str, None] = dict.fromkeys(queues)
    try:
        async with asyncio.timeout(_SEARCH_SECONDS):
            for queue in queues:
                if len(found) >= _MOST_FOUND:
                    break
                if await _search_queue(board, queue, pattern, found):
                    del unsearched[queue]
    except TimeoutError:
        pass
    return Search(found, list(unsearched))


async def _search_queue(board: Board, queue: str, pattern: str, found: list[Found]) -> bool:
    is_whole = True
    for standing in STANDINGS:
        try:
            scanned = await board.searcher.scan(
                queue, standing.state, future=standing.is_future, limit=_PER_STANDING, body_regex=pattern
            )
        except QueueNotFound:
            return True
        except ServerError:  # the search took too long there
            is_whole = False
            continue
        found.extend(Found(queue, standing, info, error_line(info.status)) for info in scanned.jobs)
        is_whole = is_whole and scanned.continuation is None
    return is_whole

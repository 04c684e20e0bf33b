"""Search box: a descriptor opens its job, a queue name its queue; any other text is searched for in all queues."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pinlater.client.waits import waits_text
from pinlater.dashboard.app_state import get_app_state
from pinlater.dashboard.forms import RequestRefused, query_text
from pinlater.dashboard.job_search import (
    BODY_SECONDS,
    KEY_JOBS,
    KEY_SECONDS,
    JobSearchResult,
    Wanted,
    find_by_body,
    find_by_key,
    find_classes,
    find_groups,
)
from pinlater.dashboard.pages.job import MOST_DESCRIPTOR, path_of
from pinlater.dashboard.privacy import admit_search
from pinlater.dashboard.render import page
from pinlater.errors import UnknownError
from pinlater.model.descriptor import JobDescriptor


async def find(request: Request) -> Response:
    """Redirect to the job or queue that the text names, or list what was found."""
    app, text = get_app_state(request), query_text(request, "q", MOST_DESCRIPTOR)
    if not text:
        return RedirectResponse("/", 303)
    if _is_descriptor(text):
        return RedirectResponse(path_of(text), 303)
    names = await app.client.queue_names()
    if text in names:
        return RedirectResponse(f"/queues/{text}", 303)
    wanted = Wanted.parse(text)
    if wanted.has("text"):
        admit_search(request, wanted.text)
    if app.search.locked():
        raise RequestRefused(429, "another search is running; try again in a few seconds")
    queues, nothing = sorted(names), JobSearchResult([], {})
    async with app.search:
        by_key = await find_by_key(app, queues, wanted.text) if wanted.has("key") else nothing
        by_body = await find_by_body(app, queues, wanted.text) if wanted.has("text") else nothing
    return page(
        request,
        "find.html",
        text=text,
        wanted=wanted,
        similar=[name for name in queues if wanted.text.lower() in name.lower()][:20] if not wanted.kind else [],
        groups=await find_groups(app, wanted.text) if wanted.has("error") else [],
        classes=await find_classes(app, wanted.text) if wanted.has("class") else [],
        by_key=by_key,
        by_body=by_body,
        unsearched=sorted((by_key.unsearched | by_body.unsearched).items()),
        unasked=by_key.unasked,
        waits_text=waits_text,
        limits={"body_seconds": BODY_SECONDS, "key_seconds": KEY_SECONDS, "key_jobs": KEY_JOBS},
    )


def _is_descriptor(text: str) -> bool:
    try:
        JobDescriptor.parse(text)
    except UnknownError:
        return False
    return True

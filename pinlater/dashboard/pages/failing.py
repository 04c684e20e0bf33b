"""Failing page: failed and retrying jobs by error and class, and failing periodic jobs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pinlater.client.periodic import PeriodicJobs
from pinlater.dashboard.addresses import address
from pinlater.dashboard.app_state import get_app_state, known_queue
from pinlater.dashboard.failing_groups import COUNTED_TO, MOST_GROUPS, ORDERS, SELECTIONS, failing_groups
from pinlater.dashboard.forms import RequestRefused, query_text
from pinlater.dashboard.paging import page_of
from pinlater.dashboard.periodic_directory import current
from pinlater.dashboard.render import page

_PATIENCE_SECONDS = 0.3
"""How long the page waits for trends and periodic jobs; what takes longer appears at a later refresh."""
_MOST_PERIODIC = 5
_MOST_QUEUES = 100
"""Queues that the filter suggests."""

_DEFAULTS = {"show": "all", "sort": "jobs"}


async def failing(request: Request) -> Response:
    """Show the failure groups of a queue or of all queues, and periodic jobs whose last run failed."""
    app = get_app_state(request)
    queue, job = query_text(request, "queue", 200), query_text(request, "class", 200)
    selection = SELECTIONS.get(query_text(request, "show", 20) or "all")
    order = ORDERS.get(query_text(request, "sort", 20) or "jobs")
    if selection is None or order is None:
        raise RequestRefused(400, "there is no such list of failures", "/failing")
    if queue:
        await known_queue(app, queue)
    found = await app.failure_groups.get(queue)
    every = failing_groups(found, job, app.clock.now())
    rows = sorted(filter(selection.includes, every), key=order.key)
    list_page = page_of(request, rows)
    of_shown = frozenset(row.group.queue for row in list_page.rows)
    trends = await app.failure_trends.get_within(of_shown, _PATIENCE_SECONDS) or {}
    known = await app.periodic.get_within(queue, _PATIENCE_SECONDS)
    periodic = known or PeriodicJobs([], set())
    periodic_jobs = [one for one in periodic.jobs if one.failures and job.lower() in one.name.lower()]
    fields = {"queue": queue, "class": job, "show": selection.name, "sort": order.name}
    return page(
        request,
        "failing.html",
        queue=queue,
        queues=sorted({group.queue for group in found})[:_MOST_QUEUES],
        job=job,
        selection=selection,
        selections=[(one, sum(map(one.includes, every))) for one in SELECTIONS.values()],
        order=order,
        orders=ORDERS.values(),
        rows=[(row, trends.get((row.group.queue, row.group.id))) for row in list_page.rows],
        given_up=sum(row.group.given_up for row in rows),
        retrying=sum(row.group.retrying for row in rows),
        groups=len(rows),
        has_more=any(max(row.group.given_up, row.group.retrying) >= COUNTED_TO for row in rows),
        is_cut=len(found) >= MOST_GROUPS,
        most_groups=MOST_GROUPS,
        counted_to=COUNTED_TO,
        periodic=[one for one in await current(app.client, periodic_jobs[:_MOST_PERIODIC]) if one.failures],
        more_periodic=max(len(periodic_jobs) - _MOST_PERIODIC, 0),
        is_searching=known is None,
        unseen=sorted(periodic.left_out),
        list_page=list_page,
        link=lambda **changed: address("/failing", fields | changed, _DEFAULTS),
    )


async def failed(request: Request) -> Response:
    """Redirect from the address that this page had in older versions."""
    queue = query_text(request, "queue", 200)
    return RedirectResponse(address("/failing", {"queue": queue}), 308)

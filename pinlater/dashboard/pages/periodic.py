"""Periodic page: schedule, next and last run of periodic jobs; actions to run now, pause and resume."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.periodic import PeriodicJob, PeriodicJobs, periodic_job
from pinlater.dashboard.access import form_of, local_path
from pinlater.dashboard.addresses import address
from pinlater.dashboard.app_state import AppState, get_app_state, known_queue
from pinlater.dashboard.audit import audit
from pinlater.dashboard.forms import RequestRefused, query_text
from pinlater.dashboard.pages.job import job_of
from pinlater.dashboard.paging import page_of
from pinlater.dashboard.periodic_directory import current
from pinlater.dashboard.render import page

_PATIENCE_SECONDS = 1.0
"""How long the page waits for the search of periodic jobs; after that it says that the search is still running."""
_LATE_MS = 10_000
"""A periodic job that has been due for longer without a worker is shown as late."""

_NOTES = {
    "run-now": "The run is due now. It takes the place of the next one on the schedule.",
    "pause-periodic": "The job is paused until you resume it.",
    "resume-periodic": "The job is resumed. If it has missed runs, it runs now, once for all of them.",
    "unchanged": "Nothing was changed: the job runs now, has changed since the page was made, or has ended.",
}


class _Shown(NamedTuple):
    """Which periodic jobs are shown: name in addresses, and title of the tab."""

    name: str
    title: str


_SHOWN = (_Shown("all", "all"), _Shown("failing", "failing"), _Shown("late", "late"), _Shown("paused", "paused"))


class _Row(NamedTuple):
    """A periodic job, and how many seconds it has been due without a worker; None if it is not late."""

    job: PeriodicJob
    late_seconds: float | None


async def periodic(request: Request) -> Response:
    """Show periodic jobs, failing ones first, then late ones."""
    app = get_app_state(request)
    queue, wanted = query_text(request, "queue", 200), query_text(request, "q", 200)
    which = query_text(request, "show", 20) or "all"
    if which not in [shown.name for shown in _SHOWN]:
        raise RequestRefused(400, "there are no such periodic jobs to show", "/periodic")
    if queue:
        await known_queue(app, queue)
    known = await app.periodic.get_within(queue, _PATIENCE_SECONDS)
    if known is None:  # the search takes long, or the server is away: then this call raises, and the page says so
        await app.client.queue_names()
    found = known or PeriodicJobs([], set())
    now_ms = int(app.clock.now() * 1000)
    matching = [_row(job, now_ms) for job in found.jobs if wanted.lower() in job.name.lower()]
    tabs = [(shown, [row for row in matching if _is_shown(row, shown.name)]) for shown in _SHOWN]
    rows = sorted(next(rows for shown, rows in tabs if shown.name == which), key=_place)
    list_page = page_of(request, rows)
    fields = {"queue": queue, "q": wanted, "show": which}
    return page(
        request,
        "periodic.html",
        queue=queue,
        wanted=wanted,
        which=which,
        tabs=[(shown, len(rows)) for shown, rows in tabs],
        rows=sorted(await _refreshed(app, list_page.rows), key=_place),
        is_empty=not found.jobs,
        is_searching=known is None,
        list_page=list_page,
        link=lambda **changed: address("/periodic", fields | changed, {"show": "all"}),
        unseen=sorted(found.left_out),
        note=_NOTES.get(query_text(request, "done", 20), ""),
    )


async def change(request: Request) -> Response:
    """Run a periodic job now, pause it or resume it."""
    app, form = get_app_state(request), form_of(request)
    described, action = job_of(form), form.text("action", 20)
    name, verb = str(described), _CHANGES.get(action)
    if verb is None:
        raise RequestRefused(400, "there is no such action", "/periodic")
    info = (await app.client.lookup([name], include_body=True)).get(name)
    job = None if info is None else periodic_job(described.queue, info)
    is_changed = job is not None and await verb(app.client, job)
    audit(request, action, name, int(is_changed))
    app.counts.forget(described.queue)
    return _back(form.text("back", 2000), action if is_changed else "unchanged")


async def _run_now(client: AsyncVerbs, job: PeriodicJob) -> bool:
    return await client.run_now(job.queue, [job.info.descriptor]) > 0


_CHANGES = {
    "run-now": _run_now,
    "pause-periodic": AsyncVerbs.pause_periodic,
    "resume-periodic": AsyncVerbs.resume_periodic,
}


def _back(path: str, done: str) -> Response:
    path = local_path(path)
    if not path.startswith("/periodic"):
        path = "/periodic"
    return RedirectResponse(f"{path}{'&' if '?' in path else '?'}done={done}", 303)


def _row(job: PeriodicJob, now_ms: int) -> _Row:
    late_ms = job.late_ms(now_ms)
    return _Row(job, late_ms / 1000 if late_ms > _LATE_MS else None)


def _is_shown(row: _Row, which: str) -> bool:
    if which == "failing":
        return row.job.failures > 0
    if which == "paused":
        return row.job.is_paused
    return which == "all" or row.late_seconds is not None


def _place(row: _Row) -> tuple[int, float, str, str]:
    """Sort by failed runs, then by lateness, then by queue and class."""
    return -row.job.failures, -(row.late_seconds or 0.0), row.job.queue, row.job.name


async def _refreshed(app: AppState, rows: Sequence[_Row]) -> list[_Row]:
    """Return the rows with the current state of their jobs."""
    jobs, now_ms = await current(app.client, [row.job for row in rows]), int(app.clock.now() * 1000)
    return [_row(job, now_ms) for job in jobs]

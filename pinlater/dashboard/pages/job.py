"""Job page: details of one job, with retry, run now and delete; ``job_messages`` has cancel and send."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pinlater.client.waits import awaited_events, call_text, waits_text
from pinlater.dashboard.access import form_of
from pinlater.dashboard.app_state import get_app_state
from pinlater.dashboard.audit import audit
from pinlater.dashboard.bodies import view_of
from pinlater.dashboard.command_line import enqueue_command
from pinlater.dashboard.first_seen import parse_holder
from pinlater.dashboard.forms import Form, RequestRefused, query_text
from pinlater.dashboard.job_links import links_of
from pinlater.dashboard.render import page
from pinlater.dashboard.replacement import why_not
from pinlater.dashboard.timeline import timeline_of
from pinlater.dashboard.tracebacks import traceback_view
from pinlater.dashboard.whole_jobs import find_whole
from pinlater.dashboard.workforce import run_of
from pinlater.errors import UnknownError
from pinlater.model.body_summary import summarize
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState

MOST_DESCRIPTOR = 300
MOST_ROWS = 200
"""Rows of a timeline."""

_NOTES = {
    "retry": "The job is pending again.",
    "run-now": "The job is due now.",
    "cancel": "The job is cancelled, or asked to stop if it runs.",
    "send": "The event was sent.",
    "edit": "The edited job is stored; the old one is deleted.",
    "save": "The job is as you have saved it, and keeps its descriptor.",
    "enqueue": "The job is stored.",
    "unchanged": "Nothing was changed: the job is in another state now.",
}


def path_of(descriptor: str) -> str:
    """Return the URL path of a job's page."""
    return f"/job?id={quote(descriptor, safe=':')}"


async def job(request: Request) -> Response:
    """Show a job."""
    return await _shown(request, query_text(request, "id", MOST_DESCRIPTOR), reveals=False)


async def reveal(request: Request) -> Response:
    """Show a job with its hidden body; this is logged."""
    descriptor = str(job_of(form_of(request)))
    audit(request, "show-body", descriptor, 1)
    return await _shown(request, descriptor, reveals=True)


async def retry(request: Request) -> Response:
    """Make a failed job pending again."""
    app, form = get_app_state(request), form_of(request)
    described = job_of(form)
    attempts = int(form.number("attempts", 1, 10_000, int) or 1)
    count = await app.client.retry_these(described.queue, [str(described)], attempts=attempts)
    return changed(request, described, "retry", count)


async def run_now(request: Request) -> Response:
    """Make a scheduled job due now."""
    described = job_of(form_of(request))
    count = await get_app_state(request).client.run_now(described.queue, [str(described)])
    return changed(request, described, "run-now", count)


async def delete(request: Request) -> Response:
    """Delete a job if it is still in the state that the page showed."""
    app, form = get_app_state(request), form_of(request)
    described = job_of(form)
    try:
        state = JobState[form.text("state", 20)]
    except KeyError:
        raise RequestRefused(400, "there is no such state") from None
    count = await app.client.delete_these(described.queue, [str(described)], state)
    return changed(request, described, "delete", count)


def changed(request: Request, job: JobDescriptor, action: str, count: int) -> Response:
    """Log a change of a job, of which there were ``count``, forget what it has made wrong, and show the job's page."""
    audit(request, action, str(job), count)
    get_app_state(request).changed(job.queue)
    return RedirectResponse(f"{path_of(str(job))}&done={action.partition('(')[0] if count else 'unchanged'}", 303)


def job_of(form: Form) -> JobDescriptor:
    """Return the job that a form is about.

    A field of the name "id" would stand in for the form's own id; htmx would then replace the form with every refresh,
    and take what is typed into it, and the focus.

    Raises:
        RequestRefused: there is no such field, or it is not a descriptor.
    """
    return parsed(form.text("job", MOST_DESCRIPTOR))


def parsed(descriptor: str) -> JobDescriptor:
    """Parse a descriptor from a request.

    Raises:
        RequestRefused: it is not a descriptor.
    """
    try:
        return JobDescriptor.parse(descriptor)
    except UnknownError as error:
        raise RequestRefused(400, str(error)) from None


async def _shown(request: Request, descriptor: str, *, reveals: bool) -> Response:
    app, described = get_app_state(request), parsed(descriptor)
    info = await find_whole(app.client, descriptor, include_result=True)
    if info is None:
        return page(request, "no_job.html", 404, descriptor=descriptor, queue=described.queue)
    hides = app.options.hides_bodies and not reveals
    body = None if info.body is None or hides else view_of(info.body)
    metadata = body.metadata if body else None
    holder = parse_holder(info.claim) if info.claim else None
    run = None
    if holder is not None and holder.host and info.state is JobState.IN_PROGRESS:
        run = run_of(await app.reports.get(""), descriptor, holder.host, holder.pid)
    now_ms = int(app.clock.now() * 1000)
    since_ms = app.first_seen.since_ms(info) if info.state is JobState.IN_PROGRESS else None
    return page(
        request,
        "job.html",
        info=info,
        queue=described.queue,
        priority=described.priority,
        display_state=_standing(info, now_ms),
        body=body,
        summary=None if body is None else summarize(info.body),
        timeline=timeline_of(info, metadata, now_ms, since_ms=run.since_ms if run else since_ms),
        most_rows=MOST_ROWS,
        links=await links_of(app.client, descriptor, metadata) if metadata else None,
        attempts=[(failed, traceback_view(failed.traceback)) for failed in reversed(info.failed_attempts)],
        result=None if info.result is None or hides else view_of(info.result),
        waits=waits_text(info.waits_for),
        events=awaited_events(info.waits_for),
        call=call_text(info.parent) if info.parent else "",
        hides=hides,
        command="" if hides else enqueue_command(info),
        why_not_edit=why_not(info),
        is_revealed=reveals,
        body_size=len(info.body or b""),
        now_ms=now_ms,
        note=_NOTES.get(query_text(request, "done", 20), ""),
        holder=holder,
        run=run,
        since_ms=since_ms,
    )


def _standing(info: JobInfo, now_ms: int) -> str:
    if info.state is JobState.PENDING and info.failure_group is not None:
        return "retrying"
    if info.state is JobState.PENDING:
        is_due = (info.run_after_ms or 0) <= now_ms and not info.waits_for_key
        return "pending" if is_due else "scheduled"
    return {JobState.IN_PROGRESS: "running", JobState.FAILED: "failed"}.get(info.state, "succeeded")

"""One job: everything that is known of it, and another chance for it."""

from __future__ import annotations

import time
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pinlater.dashboard.access import form_of
from pinlater.dashboard.app_state import board_of
from pinlater.dashboard.audit import audit
from pinlater.dashboard.bodies import view_of
from pinlater.dashboard.first_seen import holder_of
from pinlater.dashboard.forms import Refused, asked
from pinlater.dashboard.render import page
from pinlater.dashboard.workforce import run_of
from pinlater.errors import UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.records import JobInfo
from pinlater.model.state import JobState

MOST_DESCRIPTOR = 300
_NOTES = {
    "retry": "It is pending again.",
    "run-now": "It is due now.",
    "unchanged": "Nothing was changed: the job has left that state meanwhile.",
}


def path_of(descriptor: str) -> str:
    """Return the address of a job's page."""
    return f"/job?id={quote(descriptor, safe=':')}"


async def job(request: Request) -> Response:
    """Show it."""
    return await _shown(request, asked(request, "id", MOST_DESCRIPTOR), reveals=False)


async def reveal(request: Request) -> Response:
    """Show it with its body, where bodies are hidden; that is logged."""
    descriptor = form_of(request).text("id", MOST_DESCRIPTOR)
    audit(request, "show-body", descriptor, 1)
    return await _shown(request, descriptor, reveals=True)


async def retry(request: Request) -> Response:
    """Make a failed job pending again."""
    board, form = board_of(request), form_of(request)
    described = _parsed(form.text("id", MOST_DESCRIPTOR))
    attempts = int(form.number("attempts", 1, 10_000, int) or 1)
    count = await board.client.retry_these(described.queue, [str(described)], attempts=attempts)
    audit(request, "retry", str(described), count)
    board.changed(described.queue)
    return RedirectResponse(f"{path_of(str(described))}&done={'retry' if count else 'unchanged'}", 303)


async def run_now(request: Request) -> Response:
    """Make a pending job due that waits for a later moment."""
    board = board_of(request)
    described = _parsed(form_of(request).text("id", MOST_DESCRIPTOR))
    count = await board.client.run_now(described.queue, [str(described)])
    audit(request, "run-now", str(described), count)
    board.changed(described.queue)
    return RedirectResponse(f"{path_of(str(described))}&done={'run-now' if count else 'unchanged'}", 303)


async def delete(request: Request) -> Response:
    """Delete a job that is in the state that the page showed."""
    board, form = board_of(request), form_of(request)
    described = _parsed(form.text("id", MOST_DESCRIPTOR))
    try:
        state = JobState[form.text("state", 20)]
    except KeyError:
        raise Refused(400, "there is no such state") from None
    count = await board.client.delete_these(described.queue, [str(described)], state)
    audit(request, "delete", str(described), count)
    board.changed(described.queue)
    return RedirectResponse(path_of(str(described)) + ("" if count else "&done=unchanged"), 303)


def _parsed(descriptor: str) -> JobDescriptor:
    try:
        return JobDescriptor.parse(descriptor)
    except UnknownError as error:
        raise Refused(400, str(error)) from None


async def _shown(request: Request, descriptor: str, *, reveals: bool) -> Response:
    board, described = board_of(request), _parsed(descriptor)
    info = (await board.client.lookup([descriptor], include_body=True)).get(descriptor)
    if info is None:
        return page(request, "no_job.html", 404, descriptor=descriptor, queue=described.queue)
    hides = board.options.hides_bodies and not reveals
    holder = holder_of(info.claim) if info.claim else None
    run = None
    if holder is not None and holder.host and info.state is JobState.IN_PROGRESS:
        run = run_of(await board.reports.get(""), descriptor, holder.host, holder.pid)
    return page(
        request,
        "job.html",
        info=info,
        queue=described.queue,
        priority=described.priority,
        standing=_standing(info),
        body=None if info.body is None or hides else view_of(info.body),
        hides=hides,
        is_revealed=reveals,
        kept_size=len(info.body or b""),
        now_ms=int(time.time() * 1000),
        note=_NOTES.get(asked(request, "done", 20), ""),
        holder=holder,
        run=run,
        since_ms=board.sightings.since_ms(info) if info.state is JobState.IN_PROGRESS else None,
    )


def _standing(info: JobInfo) -> str:
    if info.state is JobState.PENDING:
        return "scheduled" if (info.run_after_ms or 0) > time.time() * 1000 else "pending"
    return {JobState.IN_PROGRESS: "running", JobState.FAILED: "failed"}.get(info.state, "succeeded")

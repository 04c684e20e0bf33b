"""Changes of many jobs: first the number, then a yes, then the progress."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pinlater.dashboard.access import form_of, own_path
from pinlater.dashboard.audit import who
from pinlater.dashboard.board import Board, board_of
from pinlater.dashboard.forms import Form, Refused
from pinlater.dashboard.plans import MOST_JOBS, Action, Plan
from pinlater.dashboard.render import page
from pinlater.descriptor import JobDescriptor
from pinlater.errors import UnknownError
from pinlater.state import JobState


async def make(request: Request) -> Response:
    """Plan something for a group of failed jobs, or for jobs that were ticked; nothing is changed yet."""
    board, form = board_of(request), form_of(request)
    try:
        action, state = Action(form.text("action", 20)), JobState[form.text("state", 20)]
    except (KeyError, ValueError):
        raise Refused(400, "there is no such action or state") from None
    if action is Action.RETRY and state is not JobState.FAILED:
        raise Refused(400, "only failed jobs can be retried")
    jobs, reason = await _group(board, form) if form.text("group", 64) else (_ticked(form.all("id")), "ticked by hand")
    if not jobs:
        raise Refused(400, "tick some jobs first")
    back = own_path(form.text("back", 2000))
    plan = Plan(action=action, state=state, jobs=jobs, reason=reason, back=back)
    board.plans.add(plan)
    return RedirectResponse(f"/plans/{plan.key}", 303)


async def show(request: Request) -> Response:
    """Show what is planned, or how far it is."""
    return page(request, "plan.html", plan=_plan(request), state_name=_plan(request).state.name.lower())


async def start(request: Request) -> Response:
    """Carry it out."""
    plan = _plan(request)
    plan.attempts = int(form_of(request).number("attempts", 1, 10_000, int) or 1)
    board_of(request).plans.start(plan, who(request))
    return RedirectResponse(f"/plans/{plan.key}", 303)


async def stop(request: Request) -> Response:
    """Stop it; what is done stays done."""
    plan = _plan(request)
    await board_of(request).plans.stop(plan)
    return RedirectResponse(f"/plans/{plan.key}", 303)


def _plan(request: Request) -> Plan:
    plan = board_of(request).plans.find(request.path_params["key"])
    if plan is None:
        raise Refused(404, "this is not known any more; go back and choose the jobs again")
    return plan


async def _group(board: Board, form: Form) -> tuple[dict[str, list[str]], str]:
    found = await board.failures.get(form.text("queue", 200))
    group = found.group(form.text("group", 64))
    if group is None:
        raise Refused(409, "this group has changed meanwhile; go back and look again")
    return {group.queue: group.jobs[:MOST_JOBS]}, group.example


def _ticked(descriptors: Iterable[str]) -> dict[str, list[str]]:
    jobs: dict[str, list[str]] = {}
    for text in dict.fromkeys(descriptors):
        try:
            jobs.setdefault(JobDescriptor.parse(text).queue, []).append(text)
        except UnknownError as error:
            raise Refused(400, str(error)) from None
    return jobs

"""Changes of many jobs: first the number, then a yes, then the progress."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pinlater.dashboard.access import form_of, own_path
from pinlater.dashboard.app_state import Board, board_of
from pinlater.dashboard.audit import who
from pinlater.dashboard.bulk_actions import MOST_JOBS, Action, Plan
from pinlater.dashboard.forms import Form, Refused
from pinlater.dashboard.render import page
from pinlater.errors import UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.state import JobState


async def make(request: Request) -> Response:
    """Plan something for a group of failed jobs, or for jobs that were ticked; nothing is changed yet."""
    board, form = board_of(request), form_of(request)
    try:
        action, state = Action(form.text("action", 20)), JobState[form.text("state", 20)]
    except (KeyError, ValueError):
        raise Refused(400, "there is no such action or state") from None
    if action is Action.RETRY and state is not JobState.FAILED:
        raise Refused(400, "only failed jobs can be retried")
    if action is Action.MOVE and state not in {JobState.FAILED, JobState.PENDING}:
        raise Refused(400, "only pending and failed jobs can be moved")
    jobs, reason = await _group(board, form) if form.text("group", 64) else (_ticked(form.all("id")), "ticked by hand")
    if not jobs:
        raise Refused(400, "tick some jobs first")
    back = own_path(form.text("back", 2000))
    plan = Plan(action=action, state=state, jobs=jobs, reason=reason, back=back)
    board.plans.add(plan)
    return RedirectResponse(f"/plans/{plan.key}", 303)


async def show(request: Request) -> Response:
    """Show what is planned, or how far it is."""
    plan = _plan(request)
    return page(
        request, "plan.html", plan=plan, state_name=plan.state.name.lower(), targets=await _targets(request, plan)
    )


async def start(request: Request) -> Response:
    """Carry it out."""
    plan, form = _plan(request), form_of(request)
    attempts = form.number("attempts", 1, 10_000, int)
    to = await _target(request, plan) if plan.action is Action.MOVE and not plan.is_started else ""
    if not plan.is_started:  # a second click may have come while the queues were asked for
        plan.to = to
        plan.attempts = int(attempts) if attempts and plan.state is JobState.FAILED else None
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


async def _targets(request: Request, plan: Plan) -> list[str]:
    """Return the queues that its jobs can be moved to."""
    if plan.action is not Action.MOVE or plan.is_started:
        return []
    return sorted(await board_of(request).client.queue_names() - plan.jobs.keys())


async def _target(request: Request, plan: Plan) -> str:
    to = form_of(request).text("to", 200)
    if to not in await _targets(request, plan):
        raise Refused(400, "choose another queue that there is", f"/plans/{plan.key}")
    return to


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

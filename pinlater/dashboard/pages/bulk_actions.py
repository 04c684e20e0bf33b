"""Bulk action page: the number of jobs and a confirmation, then the progress."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pinlater.dashboard.access import form_of, local_path
from pinlater.dashboard.app_state import get_app_state, known_queue
from pinlater.dashboard.audit import who
from pinlater.dashboard.bulk_actions import Action, PlannedAction
from pinlater.dashboard.bulk_jobs import ListedJobs, MatchingJobs
from pinlater.dashboard.forms import RequestRefused
from pinlater.dashboard.job_query import JobQuery, read_query
from pinlater.dashboard.privacy import admit_search
from pinlater.dashboard.render import page
from pinlater.errors import CallTimeout, UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.state import JobState


async def make(request: Request) -> Response:
    """Plan an action on selected jobs, or on all that match a query; nothing is changed yet."""
    app, form = get_app_state(request), form_of(request)
    query = read_query(form.text, app.options.priority_levels) if form.text("matching", 4) else None
    try:
        action = Action(form.text("action", 20))
        state = JobState[form.text("state", 20)] if query is None else query.display_state.state
    except (KeyError, ValueError):
        raise RequestRefused(400, "there is no such action or state") from None
    _check_state(action, state)
    jobs: ListedJobs | MatchingJobs
    if query is not None:
        jobs, reason = await _matching(request, query, in_order=action is Action.MOVE), str(query)
    else:  # lists begin with the latest due job, but moved jobs of an ordered key have to keep their order
        names = form.all("job")
        jobs, reason = _selected(names if form.text("order", 10) == "oldest" else names[::-1]), "manual selection"
    if jobs.total == 0:
        raise RequestRefused(400, "no job matches any more" if query else "select some jobs first")
    back = local_path(form.text("back", 4000))
    planned = PlannedAction(action=action, state=state, jobs=jobs, reason=reason, back=back)
    app.bulk_actions.add(planned)
    return RedirectResponse(f"/plans/{planned.key}", 303)


def _check_state(action: Action, state: JobState) -> None:
    if action is Action.RETRY and state is not JobState.FAILED:
        raise RequestRefused(400, "only failed jobs can be retried")
    if action is Action.CANCEL and state.is_final:
        raise RequestRefused(400, "only jobs that have not ended can be cancelled")
    if action is Action.MOVE and state not in {JobState.FAILED, JobState.PENDING}:
        raise RequestRefused(400, "only pending and failed jobs can be moved")
    if action is Action.RUN_NOW and state is not JobState.PENDING:
        raise RequestRefused(400, "only jobs that are not due yet can be run now")
    if action is Action.DELETE and state is JobState.IN_PROGRESS:
        raise RequestRefused(400, "running jobs cannot be deleted; cancel them")


async def show(request: Request) -> Response:
    """Show a planned action, or the progress of a running one."""
    planned = _find_action(request)
    return page(
        request,
        "bulk_action.html",
        planned=planned,
        state_name=planned.state.name.lower(),
        targets=await _targets(request, planned),
    )


async def start(request: Request) -> Response:
    """Start a planned action."""
    planned, form = _find_action(request), form_of(request)
    attempts = form.number("attempts", 1, 10_000, int)
    to = await _target(request, planned) if planned.action is Action.MOVE and not planned.is_started else ""
    if not planned.is_started:  # a second click may have come while the queues were read
        planned.to = to
        planned.attempts = int(attempts) if attempts and planned.state is JobState.FAILED else None
        get_app_state(request).bulk_actions.start(planned, who(request))
    return RedirectResponse(f"/plans/{planned.key}", 303)


async def stop(request: Request) -> Response:
    """Stop a running action; jobs that were changed stay changed."""
    planned = _find_action(request)
    await get_app_state(request).bulk_actions.stop(planned)
    return RedirectResponse(f"/plans/{planned.key}", 303)


def _find_action(request: Request) -> PlannedAction:
    planned = get_app_state(request).bulk_actions.find(request.path_params["key"])
    if planned is None:
        raise RequestRefused(404, "this bulk action has expired; go back and select the jobs again")
    return planned


async def _targets(request: Request, planned: PlannedAction) -> list[str]:
    """Return the queues that the jobs can be moved to."""
    if planned.action is not Action.MOVE or planned.is_started:
        return []
    return sorted(await get_app_state(request).client.queue_names() - set(planned.queues))


async def _target(request: Request, planned: PlannedAction) -> str:
    to = form_of(request).text("to", 200)
    if to not in await _targets(request, planned):
        raise RequestRefused(400, "choose another existing queue", f"/plans/{planned.key}")
    return to


async def _matching(request: Request, query: JobQuery, *, in_order: bool) -> MatchingJobs:
    app = get_app_state(request)
    await known_queue(app, query.queue)
    if query.regex:
        admit_search(request, f"{query.job} {query.argument}".strip())
    client = app.searcher if query.regex else app.client
    if query.key:
        return MatchingJobs(query, None, in_order)
    try:
        total = await client.count(query.queue, query.display_state.state, **query.filters)
    except (UnknownError, CallTimeout):  # counting takes too long, though reading page by page does not
        total = None
    return MatchingJobs(query, total, in_order)


def _selected(descriptors: Iterable[str]) -> ListedJobs:
    jobs: dict[str, list[str]] = {}
    for text in dict.fromkeys(descriptors):
        try:
            jobs.setdefault(JobDescriptor.parse(text).queue, []).append(text)
        except UnknownError as error:
            raise RequestRefused(400, str(error)) from None
    return ListedJobs(jobs)

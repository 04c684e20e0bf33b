"""Edit page, which changes a job's fields, priority, attempts or time; and the page that enqueues a job."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pinlater.client.kept_results import kept_name
from pinlater.client.waits import due_ms
from pinlater.dashboard.access import form_of, session_of
from pinlater.dashboard.app_state import AppState, get_app_state, known_queue
from pinlater.dashboard.audit import audit, who
from pinlater.dashboard.body_form import MOST_BODY, fields_of, is_sent_back, own_fields, read_body, sent_fields
from pinlater.dashboard.forms import Form, RequestRefused, query_text
from pinlater.dashboard.pages.job import MOST_DESCRIPTOR, job_of, parsed, path_of
from pinlater.dashboard.render import page
from pinlater.dashboard.replacement import replace_job, why_not
from pinlater.dashboard.sessions import Role
from pinlater.dashboard.whole_jobs import find_whole
from pinlater.model.jobs import JobInfo, NewJob
from pinlater.model.state import JobState
from pinlater.model.workers import JobClass

_DEFAULT_ATTEMPTS = 20
_UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}
_OF_ALL_RUNS = frozenset({"$policy", "$again", "$trace", "$previous"})
"""PinLater's own fields that a job keeps if it begins anew; the others record what it has done."""
_OF_DESCRIPTOR = frozenset({"$calls", "$events"})
"""Fields that no copy keeps: the messages that they count on are stored with the old job, and deleted with it."""


class _Settings(NamedTuple):
    """What a form says about a job besides its body."""

    priority: int
    attempts: int
    run_after_ms: int | None


async def edit(request: Request) -> Response:
    """Show a job's fields, priority, attempts and time in a form."""
    app, described = get_app_state(request), parsed(query_text(request, "id", MOST_DESCRIPTOR))
    info = await _found(app, str(described))
    _admit(request, str(described))
    refusal = why_not(info)
    if refusal:
        raise RequestRefused(409, refusal, path_of(str(described)))
    own = own_fields(info.body)
    job, values, kept = own or ("", {}, {})
    return page(
        request,
        "edit.html",
        queue=described.queue,
        descriptor=str(described),
        job=job,
        state=info.state.name,
        fields=None if own is None else fields_of((await _class(app, described.queue, job)).schema, values),
        text=_text_of(info.body),
        is_text=_is_text(info.body),
        has_done=bool(kept.keys() - _OF_ALL_RUNS),
        priority=described.priority,
        attempts=max(info.attempts_remaining, 1),
        due_ms=due_ms(info) if info.state is JobState.PENDING else None,
        has_unique=bool(info.unique),
        units=list(_UNITS),
        now_ms=int(app.clock.now() * 1000),
    )


async def replace(request: Request) -> Response:
    """Store the edited job in place of the old one."""
    app, form = get_app_state(request), form_of(request)
    described = job_of(form)
    name = str(described)
    info = await _found(app, name)
    back = f"/job/edit?id={name}"
    settings = _settings(form, app)
    refusal = why_not(info, settings.priority)
    if info.state.name != form.text("state", 20):
        refusal = f"the job is {info.state.name} by now"
    if refusal:
        raise RequestRefused(409, f"{refusal}; nothing was changed", path_of(name))
    body = _edited_body(form, info)
    new = NewJob(
        body,
        settings.priority,
        settings.run_after_ms or (info.run_after_ms if info.state is JobState.PENDING else None),
        settings.attempts,
        f"edited from {name} by {who(request)}\n",
        key=info.key,
    )
    stored = await replace_job(app.client, info, new)
    audit(request, f"edit(to={stored})" if stored else "edit", name, int(stored is not None))
    app.changed(described.queue)
    if stored is None:
        problem = "the job has changed meanwhile"
        if info.unique is not None:
            problem += ", or it has begun and its unique key stays taken for a period"
        raise RequestRefused(409, f"{problem}; nothing was changed", back)
    return RedirectResponse(f"{path_of(stored)}&done={'save' if stored == name else 'edit'}", 303)


async def show_new(request: Request) -> Response:
    """Show the form for a new job of a queue, for a class that workers have reported or for any JSON."""
    app, queue = get_app_state(request), query_text(request, "queue", 200)
    await known_queue(app, queue)
    classes = await app.job_classes(queue)
    wanted = query_text(request, "class", 200)
    if not wanted and classes:
        wanted = classes[0].name
    known = await _class(app, queue, wanted)
    copied = query_text(request, "copy", MOST_DESCRIPTOR)
    values, text = None, json.dumps({"job": wanted or "…"}, ensure_ascii=False)
    if copied:
        info = await _found(app, copied)
        _admit(request, copied)
        own = own_fields(info.body)
        text = _text_of(info.body)
        if own is not None:
            known, values = await _class(app, queue, own[0]), own[1]
    return page(
        request,
        "enqueue.html",
        queue=queue,
        classes=[one.name for one in classes],
        job=known.name,
        copied=copied,
        fields=fields_of(known.schema, values) if known.schema or values is not None else None,
        text=text,
        units=list(_UNITS),
        priority=known.priority or 1,
        attempts=known.attempts or _DEFAULT_ATTEMPTS,
    )


async def enqueue(request: Request) -> Response:
    """Enqueue the job that a form describes."""
    app, form = get_app_state(request), form_of(request)
    queue = await known_queue(app, form.text("queue", 200))
    settings, job = _settings(form, app), form.text("class", 200)
    new = NewJob(
        _sent_body(form, job, f"/enqueue?queue={queue}"),
        settings.priority,
        settings.run_after_ms,
        settings.attempts,
        f"enqueued by {who(request)} on the dashboard\n",
        form.text("unique", 200) or None,
    )
    name = await app.client.enqueue_once(queue, new, form.key)
    audit(request, "enqueue", name, 1)
    app.changed(queue)
    return RedirectResponse(f"{path_of(name)}&done=enqueue", 303)


async def _found(app: AppState, descriptor: str) -> JobInfo:
    info = await find_whole(app.client, str(parsed(descriptor)))
    if info is None:
        raise RequestRefused(404, f"there is no job {descriptor}")
    return info


def _admit(request: Request, descriptor: str) -> None:
    """Allow a form to show a body; if bodies are hidden, this is logged.

    Raises:
        RequestRefused: the read-only password allows no changes.
    """
    if session_of(request).role is not Role.ADMIN:
        raise RequestRefused(403, "the read-only password does not allow changes", path_of(descriptor))
    if get_app_state(request).options.hides_bodies:
        audit(request, "show-body", descriptor, 1)


async def _class(app: AppState, queue: str, job: str) -> JobClass:
    return next((one for one in await app.job_classes(queue) if one.name == job), JobClass(job, queue))


def _edited_body(form: Form, info: JobInfo) -> bytes:
    own = own_fields(info.body)
    if own is None:
        changed_text = form.raw("body", MOST_BODY).replace("\r\n", "\n") if form.text("has_body", 4) else None
        return info.body or b"" if changed_text is None else changed_text.encode()
    job, _, kept = own
    body = _sent_body(form, job, f"/job/edit?id={info.descriptor}")
    if form.text("keeps_steps", 4) != "on":
        kept = {name: value for name, value in kept.items() if name in _OF_ALL_RUNS}
    elif kept_name(info) is not None:  # the results would be deleted with the old job
        problem = "the results of its finished steps are missing, or too large for one job; let it begin anew"
        raise RequestRefused(409, f"{problem}. Nothing was changed", f"/job/edit?id={info.descriptor}")
    kept = {name: value for name, value in kept.items() if name not in _OF_DESCRIPTOR}
    changed: dict[str, Any] = json.loads(body)
    return json.dumps(changed | kept, ensure_ascii=False, separators=(",", ":")).encode() if kept else body


def _sent_body(form: Form, job: str, back: str) -> bytes:
    """Return the body that a form sends, by fields or as JSON; ``back`` is the page with the form."""
    if form.text("by_fields", 4):
        return read_body(form, job, sent_fields(form))
    body = form.raw("body", MOST_BODY).strip().encode()
    own = own_fields(body)
    if own is None:
        raise RequestRefused(400, "the body is not a JSON object", back)
    if own[2]:
        raise RequestRefused(400, "fields that begin with $ are PinLater's own", back)
    return body


def _settings(form: Form, app: AppState) -> _Settings:
    priority = form.number("priority", 1, app.options.priority_levels, int)
    attempts = form.number("attempts", 1, 10_000, int)
    delay = form.number("delay", 0, 366 * 86_400)
    unit = _UNITS.get(form.text("unit", 10), 1)
    run_after_ms = None if delay is None else int((app.clock.now() + delay * unit) * 1000)
    return _Settings(int(priority or 1), int(attempts or _DEFAULT_ATTEMPTS), run_after_ms)


def _is_text(body: bytes | None) -> bool:
    """Return whether a form can show a body as text, and get it back unchanged."""
    try:
        text = (body or b"").decode()
    except UnicodeDecodeError:
        return False
    return len(text) <= MOST_BODY and is_sent_back(text)


def _text_of(body: bytes | None) -> str:
    """Return a body as a form shows it: indented JSON without PinLater's own fields, or other text as it is."""
    own = own_fields(body)
    if own is None:
        return (body or b"").decode("utf-8", "replace")
    job, fields, _ = own
    return json.dumps(({"job": job} if job else {}) | fields, ensure_ascii=False, indent=2)

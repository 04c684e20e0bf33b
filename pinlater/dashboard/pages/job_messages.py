"""Actions of the job page that notify a job: cancel it, and send it events."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pinlater.client.async_handle import AsyncJobHandle
from pinlater.dashboard.access import form_of
from pinlater.dashboard.app_state import get_app_state
from pinlater.dashboard.audit import audit, who
from pinlater.dashboard.forms import RequestRefused
from pinlater.dashboard.pages.job import job_of, path_of
from pinlater.errors import BodyInvalid
from pinlater.model.status import cancelled_status

_MOST_EVENT = 200
_MOST_VALUE = 100_000


async def cancel(request: Request) -> Response:
    """Cancel a job and its children."""
    app = get_app_state(request)
    described = job_of(form_of(request))
    name = str(described)
    status = cancelled_status(f"by {who(request)} on the dashboard")
    count = await app.client.cancel_these(described.queue, [name], status=status)
    audit(request, "cancel", name, count)
    app.changed(described.queue)
    return RedirectResponse(f"{path_of(name)}&done={'cancel' if count else 'unchanged'}", 303)


async def send(request: Request) -> Response:
    """Send a job an event."""
    app, form = get_app_state(request), form_of(request)
    name = str(job_of(form))
    event = form.text("event", _MOST_EVENT)
    if not event:
        raise RequestRefused(400, "an event needs a name", path_of(name))
    try:
        value = json.loads(form.text("value", _MOST_VALUE) or "null")
        is_sent = await AsyncJobHandle(app.client, name).send(event, value, id=form.key.hex())
    except (ValueError, BodyInvalid) as error:  # also for NaN, which only Python's JSON accepts
        raise RequestRefused(400, f"the value is not JSON: {error}; a text needs quotes", path_of(name)) from None
    audit(request, f"send(event={event})", name, int(is_sent))
    return RedirectResponse(f"{path_of(name)}&done={'send' if is_sent else 'unchanged'}", 303)

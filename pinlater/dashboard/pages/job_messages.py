"""Actions of the job page that notify a job: cancel it, and send it events."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import Response

from pinlater.client.async_handle import AsyncJobHandle
from pinlater.dashboard.access import form_of
from pinlater.dashboard.app_state import get_app_state
from pinlater.dashboard.audit import who
from pinlater.dashboard.forms import RequestRefused
from pinlater.dashboard.pages.job import changed, job_of, path_of
from pinlater.errors import BodyInvalid
from pinlater.model.status import cancelled_status

_MOST_EVENT = 200
_MOST_VALUE = 100_000


async def cancel(request: Request) -> Response:
    """Cancel a job and its children."""
    described = job_of(form_of(request))
    status = cancelled_status(f"by {who(request)} on the dashboard")
    count = await get_app_state(request).client.cancel_these(described.queue, [str(described)], status=status)
    return changed(request, described, "cancel", count)


async def send(request: Request) -> Response:
    """Send a job an event."""
    app, form = get_app_state(request), form_of(request)
    described = job_of(form)
    name = str(described)
    event = form.text("event", _MOST_EVENT)
    if not event:
        raise RequestRefused(400, "an event needs a name", path_of(name))
    try:
        value = json.loads(form.text("value", _MOST_VALUE) or "null")
        is_sent = await AsyncJobHandle(app.client, name).send(event, value, id=form.key.hex())
    except (ValueError, BodyInvalid) as error:  # also for NaN, which only Python's JSON accepts
        raise RequestRefused(400, f"the value is not JSON: {error}; a text needs quotes", path_of(name)) from None
    return changed(request, described, f"send(event={event})", int(is_sent))

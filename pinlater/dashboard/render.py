"""Rendering of templates: every value is escaped, including invisible characters; only our own markup is not.

What a form sends back must stay as it is: templates pass it through ``|e``, which escapes it as HTML alone.
"""

from __future__ import annotations

from contextvars import ContextVar

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse

from pinlater import __version__
from pinlater.client.keyed_client import new_key
from pinlater.client.waits import due_ms
from pinlater.dashboard import bodies, formatting
from pinlater.dashboard.app_state import get_app_state
from pinlater.dashboard.assets import url_of
from pinlater.dashboard.forms import KEY_FIELD
from pinlater.dashboard.navigation import NAVIGATION, PAGE_KEYS, ROW_KEYS
from pinlater.dashboard.privacy import may_search
from pinlater.dashboard.sessions import Role
from pinlater.model.plural import plural

SESSION_HEADER = "PinLater-Page"
"""Tells a page that refreshes itself that its session has changed, which makes its forms invalid."""

_now: ContextVar[float] = ContextVar("now")
"""The store's time for the page that is being rendered, in epoch seconds."""


def _moment(epoch_ms: int | None) -> str:
    return formatting.moment(epoch_ms, _now.get())


_environment = jinja2.Environment(
    loader=jinja2.PackageLoader("pinlater.dashboard"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    finalize=formatting.finalized,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_environment.filters.update(
    number=formatting.number,
    rate=formatting.rate,
    duration=formatting.duration,
    share=formatting.share,
    moment=_moment,
    due_ms=due_ms,
    size=formatting.size,
    plural=plural,
    shortened=formatting.shortened,
    spark=formatting.sparkline,
    short_json=bodies.short_json,
)
_environment.globals.update(
    version=__version__,
    nothing=formatting.NOTHING,
    navigation=NAVIGATION,
    page_keys=PAGE_KEYS,
    row_keys=ROW_KEYS,
    key_field=KEY_FIELD,
    new_key=new_key,
)


def page(request: Request, template: str, status: int = 200, **values: object) -> HTMLResponse:
    """Render a page, or only its live part if the page refreshes itself.

    Args:
        request: the request.
        template: file name of the template.
        status: HTTP status.
        values: variables of the template.
    """
    app = get_app_state(request)
    options = app.options
    _now.set(app.clock.now())
    session = getattr(request.state, "session", None)
    mark = session.mark if session else ""
    is_partial = "hx-request" in request.headers
    html = _environment.get_template(template).render(
        layout="live.html" if is_partial else "layout.html",
        base=options.base_path,
        asset=lambda name: options.base_path + url_of(name),
        here=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        path=request.url.path,
        session=session,
        csrf=session.csrf if session else "",
        mark=mark,
        can_change=session is not None and session.role is Role.ADMIN,
        can_search=may_search(session, options),
        options=options,
        missing_shards=app.counts.missing_shards or app.history.silent_shards,
        **values,
    )
    return HTMLResponse(html.encode("utf-8", "replace"), status, {SESSION_HEADER: mark})

"""Permission to search bodies: where bodies are hidden, searching them could reveal them letter by letter."""

from __future__ import annotations

from starlette.requests import Request

from pinlater.dashboard.access import session_of
from pinlater.dashboard.app_state import get_app_state
from pinlater.dashboard.audit import audit
from pinlater.dashboard.forms import RequestRefused
from pinlater.dashboard.options import DashboardOptions
from pinlater.dashboard.sessions import LoginSession, Role


def may_search(session: LoginSession | None, options: DashboardOptions) -> bool:
    """Tell whether a session may search bodies: if they are hidden, only the admin may."""
    return session is not None and (session.role is Role.ADMIN or not options.hides_bodies)


def admit_search(request: Request, text: str) -> None:
    """Allow a search of bodies for ``text``; log it if bodies are hidden.

    Raises:
        RequestRefused: the session may not search bodies.
    """
    options = get_app_state(request).options
    if not may_search(session_of(request), options):
        raise RequestRefused(
            403, "bodies are hidden on this server; the read-only password does not allow searching them"
        )
    if options.hides_bodies:
        audit(request, "search-bodies", text)

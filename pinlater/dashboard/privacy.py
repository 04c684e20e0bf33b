"""Who may look for text in bodies: where these are hidden, whoever may search them can guess them letter by letter."""

from __future__ import annotations

from starlette.requests import Request

from pinlater.dashboard.access import session_of
from pinlater.dashboard.app_state import board_of
from pinlater.dashboard.audit import audit
from pinlater.dashboard.forms import Refused
from pinlater.dashboard.options import Options
from pinlater.dashboard.sessions import Role, Session


def may_search(session: Session | None, options: Options) -> bool:
    """Whether this session may search bodies: where they are hidden, only one that may also have them shown."""
    return session is not None and (session.role is Role.ADMIN or not options.hides_bodies)


def admit_search(request: Request, text: str) -> None:
    """Return if bodies may be searched for ``text``; where they are hidden, that is logged.

    Raises:
        Refused: this session may not.
    """
    options = board_of(request).options
    if not may_search(session_of(request), options):
        raise Refused(403, "bodies are hidden on this server; the read-only password does not allow searching them")
    if options.hides_bodies:
        audit(request, "search-bodies", text)

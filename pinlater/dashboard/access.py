"""Who may see and change what: checked in one place, before any page is made.

Without a password only this machine reaches the port, and everybody on it may do what the Thrift port lets them do
anyway. A web page in their browser must not: so the name that the browser used has to be this machine's (a foreign name
that is made to lead here, "DNS rebinding", is refused), and every change carries a token that only our pages know. Nor
must those whom a proxy on this machine lets in from elsewhere.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from pinlater.dashboard.forms import Form, Refused, read_form
from pinlater.dashboard.forwarded import is_local
from pinlater.dashboard.options import Options
from pinlater.dashboard.sessions import Role, Session, Sessions

Show = Callable[[Request, Exception], Awaitable[Response]]

LOGIN, LOGOUT = "/login", "/logout"
HEALTH = frozenset({"/livez", "/readyz"})
METRICS = frozenset({"/metrics", "/stats.txt"})
STATIC = "/static/"

_LOOPBACK_HOST = re.compile(r"(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])(:\d{1,5})?", re.IGNORECASE | re.ASCII)
_OWN_PATH = re.compile(r"/(?![/\\])[\x21-\x7e]*", re.ASCII)
_METHODS = frozenset({"GET", "HEAD", "POST"})


class Access:
    """ASGI middleware; leaves ``session`` and ``form`` in the request's state.

    Args:
        app: what is guarded.
        options: passwords.
        sessions: those that are open.
        show: makes a page of a refusal.
    """

    def __init__(self, app: ASGIApp, options: Options, sessions: Sessions, show: Show) -> None:
        self._app = app
        self._options = options
        self._sessions = sessions
        self._show = show
        self._local = None if options.admin_hash else Session(Role.ADMIN, 0.0, 0.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit a request, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except Refused as refusal:
            answer = await self._said(request, refusal)
        await (answer or self._app)(scope, receive, send)

    async def _said(self, request: Request, refusal: Refused) -> Response:
        """Return why not: as a page to whoever sent a form of ours, in a line to programs and strangers."""
        if hasattr(request.state, "form") and "text/html" in request.headers.get("accept", ""):
            return await self._show(request, refusal)
        return PlainTextResponse(f"{refusal}\n", refusal.status, {"Connection": "close"})  # a form may be unread

    async def _answer(self, request: Request) -> Response | None:
        """Return None if the request may pass, with its session noted; otherwise what to answer."""
        path, method = request.url.path, request.method
        if method not in _METHODS:
            raise Refused(405, "use GET or POST")
        if "transfer-encoding" in request.headers and "content-length" in request.headers:
            raise Refused(400, "a request has one length")  # a proxy might believe the other one
        if path in HEALTH:
            return None
        self._check_host(request)
        if path.startswith(STATIC) or (path in METRICS and self._are_metrics_open(request)):
            return None
        token = request.cookies.get(Cookie.of(request, self._options).name)
        is_person = "hx-request" not in request.headers
        session = self._local or self._sessions.find(token, is_used=is_person)
        request.state.session = session
        if method == "POST":
            _check_origin(request)
            request.state.form = await read_form(request)
            if path != LOGIN:
                _check_change(path, session, request.state.form, _page_before(request, self._options.base_path))
            return None
        return None if session is not None or path == LOGIN else _to_login(request, is_person=is_person)

    def _are_metrics_open(self, request: Request) -> bool:
        return self._options.is_metrics_open or (self._options.is_loopback and _names_this_machine(request))

    def _check_host(self, request: Request) -> None:
        if self._options.admin_hash is None and not _names_this_machine(request):
            raise Refused(
                HTTPStatus.MISDIRECTED_REQUEST,
                "without a password this page answers to localhost and 127.0.0.1 only, and to nobody behind a proxy; "
                "to use another name, set ADMIN_PASSWORD_HASH (made by: pinlater hash-password)",
            )


def _names_this_machine(request: Request) -> bool:
    return is_local(request) and _LOOPBACK_HOST.fullmatch(request.headers.get("host", "")) is not None


class Cookie(NamedTuple):
    """What the session's cookie is called, where it is sent, and whether over TLS alone."""

    name: str
    path: str
    is_secure: bool

    @classmethod
    def of(cls, request: Request, options: Options) -> Cookie:
        """Return that for a request; browsers do not tell the ports of a host apart, so the name has to."""
        is_secure = options.tls is not None or request.url.scheme == "https"
        prefix = "" if not is_secure else "__Secure-" if options.base_path else "__Host-"
        server = request.scope.get("server") or ("", 0)
        return cls(f"{prefix}pinlater-{server[1]}", f"{options.base_path}/", is_secure)


def own_path(text: str) -> str:
    """Return where to go after a log-in: a path of ours, never another host."""
    return text if _OWN_PATH.fullmatch(text) else "/"


def session_of(request: Request) -> Session:
    """Return the session of a request that was admitted."""
    session: Session = request.state.session
    return session


def form_of(request: Request) -> Form:
    """Return the fields of a POST that was admitted."""
    form: Form = request.state.form
    return form


def peer_of(request: Request) -> str:
    """Return the address that a request came from."""
    return request.client.host if request.client else "?"


def _check_origin(request: Request) -> None:
    """Refuse what another site's page sends. Browsers name the site with every POST."""
    origin = request.headers.get("origin")
    if origin is None:
        if request.headers.get("sec-fetch-site", "same-origin") == "same-origin":
            return  # no browser, or a very old one: the token has to do
    elif urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower() != "":
        return
    raise Refused(403, "this form was sent by another site")


def _page_before(request: Request, base: str) -> str:
    """Return the path of the page that a form was on, as far as the browser tells; never another host."""
    before = urlsplit(request.headers.get("referer", ""))
    path = before.path.removeprefix(base) + (f"?{before.query}" if before.query else "")
    return path if _OWN_PATH.fullmatch(path) else ""


def _check_change(path: str, session: Session | None, form: Form, back: str) -> None:
    if session is None:
        raise Refused(403, "you are not logged in, or no longer; nothing was changed", back)
    given = form.text("csrf", 100).encode("utf-8", "replace")
    if not hmac.compare_digest(given, session.csrf.encode()):
        raise Refused(
            403, "the page is from before the server's last start or your last log-in; go back, and once more", back
        )
    if session.role is not Role.ADMIN and path != LOGOUT:
        raise Refused(403, "with this password you can look, but change nothing", back)


def _to_login(request: Request, *, is_person: bool) -> Response:
    if request.url.path in METRICS:
        raise Refused(401, "log in first, or set ADMIN_OPEN_METRICS=true")
    if not is_person:  # a page that refreshes itself: the browser has to go there as a whole
        return PlainTextResponse("the session has ended\n", 401, {"HX-Redirect": LOGIN})
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(LOGIN if here == "/" else f"{LOGIN}?next={quote(here, safe='')}", 303)

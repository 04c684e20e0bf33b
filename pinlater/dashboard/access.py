"""Access control: every request is checked here, before any page is rendered.

Without a password only this machine reaches the port, and its users may do here what the Thrift port allows anyway. But
other sites' pages in their browsers may not: the host name of a request must be this machine's, which prevents DNS
rebinding, and every change carries a CSRF token that only the dashboard's pages know. Requests that a proxy forwards
from other machines are refused.
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

from pinlater.dashboard.forms import Form, RequestRefused, read_form
from pinlater.dashboard.forwarded import is_local
from pinlater.dashboard.options import DashboardOptions
from pinlater.dashboard.sessions import LoginSession, Role, Sessions

RenderRefusal = Callable[[Request, Exception], Awaitable[Response]]

LOGIN, LOGOUT = "/login", "/logout"
HEALTH = frozenset({"/livez", "/readyz"})
METRICS = frozenset({"/metrics", "/stats.txt"})
STATIC = "/static/"

_LOOPBACK_HOST = re.compile(r"(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])(:\d{1,5})?", re.IGNORECASE | re.ASCII)
_OWN_PATH = re.compile(r"/(?![/\\])[\x21-\x7e]*", re.ASCII)
_METHODS = frozenset({"GET", "HEAD", "POST"})


class AccessMiddleware:
    """ASGI middleware that authorizes requests, and stores ``session`` and ``form`` in the request's state.

    Args:
        app: the protected application.
        options: options of the dashboard, with the passwords.
        sessions: open sessions.
        render_refusal: renders a refusal as a page.
    """

    def __init__(
        self, app: ASGIApp, options: DashboardOptions, sessions: Sessions, render_refusal: RenderRefusal
    ) -> None:
        self._app = app
        self._options = options
        self._sessions = sessions
        self._render_refusal = render_refusal
        self._local = None if options.admin_hash else LoginSession(Role.ADMIN, 0.0, 0.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an authorized request on; answer any other one."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except RequestRefused as refusal:
            answer = await self._refuse(request, refusal)
        await (answer or self._app)(scope, receive, send)

    async def _refuse(self, request: Request, refusal: RequestRefused) -> Response:
        """Return a response with the reason: a page if the request sent a form, a line of text otherwise."""
        if hasattr(request.state, "form") and "text/html" in request.headers.get("accept", ""):
            return await self._render_refusal(request, refusal)
        return PlainTextResponse(f"{refusal}\n", refusal.status, {"Connection": "close"})  # the form may be unread

    async def _answer(self, request: Request) -> Response | None:
        """Authorize a request and store its session; return None to pass it on, or the answer."""
        path, method = request.url.path, request.method
        if method not in _METHODS:
            raise RequestRefused(405, "use GET or POST")
        if "transfer-encoding" in request.headers and "content-length" in request.headers:
            raise RequestRefused(
                400, "send either Content-Length or Transfer-Encoding"
            )  # a proxy might believe the other one
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
            raise RequestRefused(
                HTTPStatus.MISDIRECTED_REQUEST,
                "without a password the dashboard answers only requests for localhost or 127.0.0.1, and none that "
                "come through a proxy; for any other, set ADMIN_PASSWORD_HASH (made by: pinlater hash-password)",
            )


def _names_this_machine(request: Request) -> bool:
    return is_local(request) and _LOOPBACK_HOST.fullmatch(request.headers.get("host", "")) is not None


class Cookie(NamedTuple):
    """Name, path and TLS restriction of the session cookie."""

    name: str
    path: str
    is_secure: bool

    @classmethod
    def of(cls, request: Request, options: DashboardOptions) -> Cookie:
        """Return the cookie for a request's server, with the port in its name: browsers share cookies between ports."""
        is_secure = options.tls is not None or request.url.scheme == "https"
        prefix = "" if not is_secure else "__Secure-" if options.base_path else "__Host-"
        server = request.scope.get("server") or ("", 0)
        return cls(f"{prefix}pinlater-{server[1]}", f"{options.base_path}/", is_secure)


def local_path(text: str) -> str:
    """Return ``text`` if it is a path on this site, or else ``/``."""
    return text if _OWN_PATH.fullmatch(text) else "/"


def session_of(request: Request) -> LoginSession:
    """Return the session of an authorized request."""
    session: LoginSession = request.state.session
    return session


def form_of(request: Request) -> Form:
    """Return the form of an authorized POST."""
    form: Form = request.state.form
    return form


def peer_of(request: Request) -> str:
    """Return the address of a request's client."""
    return request.client.host if request.client else "?"


def _check_origin(request: Request) -> None:
    """Refuse forms sent by other sites' pages; browsers send the origin with every POST."""
    origin = request.headers.get("origin")
    if origin is None:
        if request.headers.get("sec-fetch-site", "same-origin") == "same-origin":
            return  # not a browser, or a very old one; the token is checked anyway
    elif urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower() != "":
        return
    raise RequestRefused(403, "this form was sent from another site")


def _page_before(request: Request, base: str) -> str:
    """Return the path of the page with the form if the browser sent it, else empty; never another host."""
    before = urlsplit(request.headers.get("referer", ""))
    path = before.path.removeprefix(base) + (f"?{before.query}" if before.query else "")
    return path if _OWN_PATH.fullmatch(path) else ""


def _check_change(path: str, session: LoginSession | None, form: Form, back: str) -> None:
    if session is None:
        raise RequestRefused(
            403,
            "you are not logged in, or your session has ended; nothing was changed. "
            "Log in in another tab, then go back: your browser may still have what you typed",
            back,
        )
    given = form.text("csrf", 100).encode("utf-8", "replace")
    if not hmac.compare_digest(given, session.csrf.encode()):
        raise RequestRefused(
            403, "the page is older than the server's last start or your last login; go back and try again", back
        )
    if session.role is not Role.ADMIN and path != LOGOUT:
        raise RequestRefused(403, "the read-only password does not allow changes", back)


def _to_login(request: Request, *, is_person: bool) -> Response:
    if request.url.path in METRICS:
        raise RequestRefused(401, "log in first, or set ADMIN_OPEN_METRICS=true")
    if not is_person:  # a page that refreshes itself: the browser has to load the whole login page
        return PlainTextResponse("the session has ended\n", 401, {"HX-Redirect": LOGIN})
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(LOGIN if here == "/" else f"{LOGIN}?next={quote(here, safe='')}", 303)

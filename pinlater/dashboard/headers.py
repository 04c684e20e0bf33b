"""Security headers and a deadline for every response."""

from __future__ import annotations

import asyncio
import logging

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

ANSWER_SECONDS = 30.0

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Not no-referrer: browsers would also hide the origin of the dashboard's own forms, which is checked.
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class SecurityHeadersMiddleware:
    """ASGI middleware that adds security headers and enforces the deadline.

    Args:
        app: the wrapped application.
        is_tls: whether to tell browsers to insist on TLS.
    """

    def __init__(self, app: ASGIApp, *, is_tls: bool) -> None:
        self._app = app
        self._headers = _HEADERS | ({"Strict-Transport-Security": "max-age=31536000"} if is_tls else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def send_guarded(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                headers = MutableHeaders(scope=message)
                headers.update(self._headers)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._app(scope, receive, send_guarded)
        except TimeoutError:
            log.warning("%s was not answered within %g s", scope["path"][:200], ANSWER_SECONDS)
            if not has_begun:
                answer = PlainTextResponse("the request took too long; try again\n", 503)
                await answer(scope, receive, send_guarded)

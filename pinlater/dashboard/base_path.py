"""Base path of the dashboard on its site. Only this module and the templates use it; other code uses paths without."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_TARGET_HEADERS = ("location", "hx-redirect")
"""Response headers with a path that the browser goes to."""


class BasePathMiddleware:
    """ASGI middleware that strips the base path from requests and adds it to redirects.

    Requests without the base path are answered as well: health checks and scrapers on this machine need not know it.

    Args:
        app: the wrapped application.
        base: base path such as ``/pinlater``; empty for none.
    """

    def __init__(self, app: ASGIApp, base: str) -> None:
        self._app = app
        self._base = base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or not self._base:
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        if path == self._base or path.startswith(f"{self._base}/"):
            scope = {**scope, "path": path.removeprefix(self._base) or "/"}

        async def send_with_base(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name in _TARGET_HEADERS:
                    target = headers.get(name, "")
                    if target.startswith("/"):
                        headers[name] = f"{self._base}{target}"
            await send(message)

        await self._app(scope, receive, send_with_base)

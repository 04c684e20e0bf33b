"""The dashboard under a path of another site: this and the templates know it, all else speaks of its own paths."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LEADING = ("location", "hx-redirect")
"""Headers that lead a browser somewhere."""


class Based:
    """ASGI middleware: takes the base path off what is asked for, and puts it before where answers lead.

    What is asked for without it is answered, too: health checks and scrapers on this machine need not know it.

    Args:
        app: what it is around.
        base: such as ``/pinlater``; empty for none.
    """

    def __init__(self, app: ASGIApp, base: str) -> None:
        self._app = app
        self._base = base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or not self._base:
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        if path == self._base or path.startswith(f"{self._base}/"):
            scope = {**scope, "path": path.removeprefix(self._base) or "/"}

        async def send_based(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name in _LEADING:
                    target = headers.get(name, "")
                    if target.startswith("/"):
                        headers[name] = f"{self._base}{target}"
            await send(message)

        await self._app(scope, receive, send_based)

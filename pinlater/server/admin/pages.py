"""The pages for machines: health and metrics, whoever serves them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from pinlater.server.admin.http import Response
from pinlater.server.admin.reports import View
from pinlater.server.metrics import render_ostrich, render_prometheus
from pinlater.server.metrics.prometheus import CONTENT_TYPE as PROMETHEUS_TEXT


class MachinePages:
    """Makes them. They are rendered in a thread: with many queues that takes a while, and /livez must not wait for it.

    Args:
        look: returns what the server processes say of themselves.
    """

    def __init__(self, look: Callable[[], Awaitable[View]]) -> None:
        self._look = look
        self.by_path: Mapping[str, Callable[[], Awaitable[Response]]] = {
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/metrics": self._prometheus,
            "/stats.txt": self._ostrich,
        }

    async def _livez(self) -> Response:
        return Response(HTTPStatus.OK, "ok\n")

    async def _readyz(self) -> Response:
        reason = (await self._look()).reason
        if reason is None:
            return Response(HTTPStatus.OK, "ok\n")
        return Response(HTTPStatus.SERVICE_UNAVAILABLE, f"{reason}\n")

    async def _prometheus(self) -> Response:
        view = await self._look()
        page = await asyncio.to_thread(lambda: render_prometheus(view.snapshot(), view.pids))
        return Response(HTTPStatus.OK, page, PROMETHEUS_TEXT)

    async def _ostrich(self) -> Response:
        view = await self._look()
        return Response(HTTPStatus.OK, await asyncio.to_thread(lambda: render_ostrich(view.snapshot())))

"""Render the monitoring pages: health checks and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from pinlater.server.admin.http import Response
from pinlater.server.admin.reports import CollectStatus
from pinlater.server.metrics import render_ostrich, render_prometheus
from pinlater.server.metrics.prometheus import CONTENT_TYPE as PROMETHEUS_TEXT


class MonitoringPages:
    """Renders the pages; metrics in a thread, since many queues take a while, and /livez must not wait for that.

    Args:
        collect_status: collects the reports of the server processes.
    """

    def __init__(self, collect_status: CollectStatus) -> None:
        self._collect_status = collect_status
        self.by_path: Mapping[str, Callable[[], Awaitable[Response]]] = {
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/metrics": self._prometheus,
            "/stats.txt": self._ostrich,
        }

    async def _livez(self) -> Response:
        return Response(HTTPStatus.OK, "ok\n")

    async def _readyz(self) -> Response:
        reason = (await self._collect_status(health_only=True)).reason
        if reason is None:
            return Response(HTTPStatus.OK, "ok\n")
        return Response(HTTPStatus.SERVICE_UNAVAILABLE, f"{reason}\n")

    async def _prometheus(self) -> Response:
        view = await self._collect_status()
        page = await asyncio.to_thread(lambda: render_prometheus(view.snapshot(), view.pids))
        return Response(HTTPStatus.OK, page, PROMETHEUS_TEXT)

    async def _ostrich(self) -> Response:
        view = await self._collect_status()
        return Response(HTTPStatus.OK, await asyncio.to_thread(lambda: render_ostrich(view.snapshot())))

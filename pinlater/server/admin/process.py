"""Run the admin process: health checks, metrics and the dashboard; no job depends on it."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

from pinlater_supervisor import Child

from pinlater.server.admin.access import has_dashboard
from pinlater.server.admin.endpoint import AdminEndpoint
from pinlater.server.admin.reports import ReportCollector
from pinlater.server.child_loop import until_stopped
from pinlater.server.config.settings import Settings
from pinlater.server.log_rate_limit import LogRateLimit
from pinlater.server.net.certificates import Certificates
from pinlater.server.net.listeners import address_of

log = logging.getLogger("pinlater.server.admin")


def run(
    child: Child, settings: Settings, listener: socket.socket, certificates: Certificates | None, folder: Path
) -> int:
    """Serve until the supervisor asks to stop; return the exit status.

    Args:
        child: this process.
        settings: the settings of the server.
        listener: the socket of the admin port.
        certificates: for TLS on the admin port; None: no TLS.
        folder: the private folder of the server's processes.
    """
    logging.getLogger("uvicorn.error").addFilter(LogRateLimit())  # it logs every invalid request
    if has_dashboard(settings):
        asyncio.run(_serve_dashboard(child, settings, listener, certificates, folder))
    else:
        asyncio.run(_serve_endpoint(child, listener, folder))
    return 0


async def _serve_endpoint(child: Child, listener: socket.socket, folder: Path) -> None:
    endpoint = AdminEndpoint(ReportCollector(folder).collect)
    await endpoint.start(sock=listener)
    try:
        child.ready()
        log.info("health checks and metrics on http://%s", address_of(listener))
        await until_stopped(child)
    finally:
        await endpoint.close()


async def _serve_dashboard(
    child: Child, settings: Settings, listener: socket.socket, certificates: Certificates | None, folder: Path
) -> None:
    from pinlater.dashboard.serving import serve
    from pinlater.server.admin.dashboard import options_of, tls_of

    async def until() -> None:
        child.ready()
        log.info("dashboard, health checks and metrics on %s://%s", "https" if tls else "http", address_of(listener))
        await until_stopped(child)

    async with tls_of(certificates) as tls:
        await serve(options_of(settings, tls, folder), listener, until)

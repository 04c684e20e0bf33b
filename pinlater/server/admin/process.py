"""The admin process: serves pages, and nothing that jobs depend on."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

from pinlater_supervisor import Child

from pinlater.server.admin.endpoint import AdminEndpoint
from pinlater.server.admin.reports import Reports
from pinlater.server.listeners import address_of
from pinlater.server.process import until_stopped

log = logging.getLogger("pinlater.server.admin")


def run(child: Child, folder: Path, listener: socket.socket) -> int:
    """Serve until the supervisor asks to stop; return the exit code."""
    asyncio.run(_serve(child, folder, listener))
    return 0


async def _serve(child: Child, folder: Path, listener: socket.socket) -> None:
    endpoint = AdminEndpoint(Reports(folder).gather)
    await endpoint.start(sock=listener)
    try:
        child.ready()
        log.info("metrics and health on http://%s", address_of(listener))
        await until_stopped(child)
    finally:
        await endpoint.close()

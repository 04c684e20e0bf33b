"""Configure the dashboard for this server; imported only if the dashboard is installed."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

from pinlater.dashboard.figures import ServerFigures
from pinlater.dashboard.options import DashboardOptions
from pinlater.server.admin.access import OWN_SOCKET
from pinlater.server.admin.figures import figures_of
from pinlater.server.admin.pages import MonitoringPages
from pinlater.server.admin.reports import ReportCollector
from pinlater.server.config.settings import Settings
from pinlater.server.net.certificates import Certificates
from pinlater.server.net.listeners import is_exposed


def options_of(settings: Settings, tls: ssl.SSLContext | None, folder: Path) -> DashboardOptions:
    """Create the options of the dashboard.

    Args:
        settings: the settings of the server.
        tls: see ``tls_of``.
        folder: the private folder of the server's processes.
    """
    reports = ReportCollector(folder)

    async def figures() -> ServerFigures:
        return figures_of(await reports.collect())

    return DashboardOptions(
        server=f"unix:{folder / OWN_SOCKET}",
        name=f"{settings.thrift_host}:{settings.thrift_port}",
        read_figures=figures,
        plain_pages=MonitoringPages(reports.collect).by_path,
        admin_hash=settings.admin_password_hash,
        reader_hash=settings.reader_password_hash,
        is_loopback=not is_exposed(settings.admin_host),
        is_metrics_open=settings.admin_open_metrics,
        hides_bodies=settings.dashboard_privacy,
        tls=tls,
        count_limit=settings.count_limit,
        priority_levels=settings.priority_levels,
        base_path=settings.dashboard_base_path,
        trusted_proxies=settings.admin_trusted_proxies,
    )


@contextlib.asynccontextmanager
async def tls_of(certificates: Certificates | None) -> AsyncIterator[ssl.SSLContext | None]:
    """Yield the TLS context of the admin port, or None; reload its certificate when its files change."""
    if certificates is None:
        yield None
        return
    certificates.reload_if_changed()
    context = certificates.context

    def newest(connection: ssl.SSLObject, _name: str | None, _first: ssl.SSLContext) -> None:
        connection.context = certificates.context

    context.sni_callback = newest
    watching = [asyncio.create_task(watch) for watch in certificates.watchers()]
    try:
        yield context
    finally:
        for task in watching:
            task.cancel()
        await asyncio.wait(watching)

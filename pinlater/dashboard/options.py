"""Options of the dashboard."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Protocol

from pinlater.dashboard.figures import ServerFigures

Network = IPv4Network | IPv6Network
"""A range of addresses, or a single one."""


class PlainPage(Protocol):
    """A response from outside the dashboard, such as health or metrics."""

    @property
    def status(self) -> int:
        """HTTP status."""

    @property
    def body(self) -> str:
        """Body text."""

    @property
    def content_type(self) -> str:
        """Content type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardOptions:
    """Options of the dashboard.

    Attributes:
        server: address of the service.
        name: display name of the service.
        read_figures: returns the metrics of the server processes.
        plain_pages: path -> renderer of a page for machines.
        admin_hash: hash of the admin password; with None, anybody who reaches the port may change things.
        reader_hash: hash of the read-only password.
        is_loopback: whether only this machine reaches the port.
        is_metrics_open: whether other machines may read metrics without a session.
        hides_bodies: whether bodies are shown only on demand, which is logged.
        tls: TLS context of the port; None for no TLS.
        count_limit: number at which the server stops counting jobs.
        priority_levels: lowest priority; the highest is 1.
        base_path: base path of the dashboard on its site, such as ``/pinlater``; empty for none.
        trusted_proxies: addresses of proxies whose forwarding headers are trusted.
    """

    server: str
    name: str
    read_figures: Callable[[], Awaitable[ServerFigures]]
    plain_pages: Mapping[str, Callable[[], Awaitable[PlainPage]]]
    admin_hash: str | None = None
    reader_hash: str | None = None
    is_loopback: bool = True
    is_metrics_open: bool = False
    hides_bodies: bool = False
    tls: ssl.SSLContext | None = None
    count_limit: int = 100_000
    priority_levels: int = 3
    base_path: str = ""
    trusted_proxies: tuple[Network, ...] = ()

"""What the dashboard is told by whoever starts it."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Protocol

from pinlater.dashboard.figures import Figures

Network = IPv4Network | IPv6Network
"""Addresses that belong together, be it a single one."""


class PlainPage(Protocol):
    """An answer that is made elsewhere: health, metrics."""

    @property
    def status(self) -> int:
        """HTTP status."""

    @property
    def body(self) -> str:
        """The text."""

    @property
    def content_type(self) -> str:
        """Its type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of the dashboard.

    Attributes:
        server: address of the service.
        name: of the service, for people.
        look: returns the figures of the server processes.
        plain_pages: path -> maker of a page for machines.
        admin_hash: of the password that allows changes; None: whoever reaches the port may change things.
        reader_hash: of a password that allows looking only.
        is_loopback: only this machine reaches the port.
        is_metrics_open: metrics need no session, wherever they are asked for.
        hides_bodies: bodies are shown on demand only, and that is logged.
        tls: what the port proves itself with; None: no TLS.
        count_limit: the server counts jobs no further than this.
        priority_levels: priorities are 1 to this.
        base_path: of the dashboard on its site, such as ``/pinlater``; empty: it has the site for itself.
        trusted_proxies: what these say of a request's origin is believed.
    """

    server: str
    name: str
    look: Callable[[], Awaitable[Figures]]
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

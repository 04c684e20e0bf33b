"""Headers of trusted proxies: the client address and scheme of forwarded requests."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from pinlater.dashboard.options import Network

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_PROXY_HEADERS = ("x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded", "via")
"""Headers that proxies add and browsers do not."""

_MOST_HOPS = 20


class ProxyHeadersMiddleware:
    """ASGI middleware that takes the client address and scheme of a request from a trusted proxy's headers.

    Each proxy appends its client's address to ``X-Forwarded-For``. So the header is read from the end, as long as the
    address is that of a trusted proxy; the rest may be forged by the client.

    Args:
        app: the wrapped application.
        trusted: addresses of the proxies.
    """

    def __init__(self, app: ASGIApp, trusted: Sequence[Network]) -> None:
        self._app = app
        self._trusted = trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            scope, is_known = {**scope}, False
            if scope.get("client") and self._trusts(_address(scope["client"][0])):
                origin, is_known = self._origin(scope["client"][0], headers)
                scope |= {"client": (origin, 0), "scheme": _scheme(scope, headers)}
            scope["is_hidden"] = not is_known and any(header in headers for header in _PROXY_HEADERS)
        await self._app(scope, receive, send)

    def _trusts(self, address: _Address | None) -> bool:
        return address is not None and any(address in network for network in self._trusted)

    def _origin(self, peer: str, headers: Headers) -> tuple[str, bool]:
        """Return the nearest address that is not a proxy's, and whether it is the client's.

        A malformed address ends the search; then the address of the last proxy is returned.
        """
        hops = ",".join(headers.getlist("x-forwarded-for")).split(",")[-_MOST_HOPS:]
        for hop in reversed(hops):
            address = _address(hop.strip())
            if address is None:
                return peer, False
            peer = str(address)
            if not self._trusts(address):
                break
        return peer, True


def is_hidden(request: Request) -> bool:
    """Whether a request came through a proxy that is not trusted or does not send the client's address."""
    return bool(request.scope.get("is_hidden"))


def is_local(request: Request) -> bool:
    """Whether a request comes from this machine."""
    address = _address(request.client.host) if request.client else None
    return not is_hidden(request) and address is not None and address.is_loopback


def _scheme(scope: Scope, headers: Headers) -> str:
    scheme = headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
    return scheme if scheme in {"http", "https"} else str(scope["scheme"])


def _address(text: str) -> _Address | None:
    """Parse an address, which some proxies write with a port; None if it is malformed."""
    host = text[1:].partition("]")[0] if text.startswith("[") else text
    if host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address

"""Requests that come through a proxy: whose word is taken for where they come from, and how."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from pinlater.dashboard.options import Network

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_SIGNS = ("x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded", "via")
"""Headers that proxies add and browsers do not."""

_MOST_HOPS = 20


class Forwarded:
    """ASGI middleware: replaces the address and the scheme of what a trusted proxy hands on by what it says.

    Of ``X-Forwarded-For``, each proxy adds at the end whom it heard from. So it is read from there, as far as those who
    wrote it are trusted; what stands before that is the client's own invention.

    Args:
        app: what it is around.
        trusted: the proxies' addresses.
    """

    def __init__(self, app: ASGIApp, trusted: Sequence[Network]) -> None:
        self._app = app
        self._trusted = trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            scope, is_told = {**scope}, False
            if scope.get("client") and self._trusts(_address(scope["client"][0])):
                origin, is_told = self._origin(scope["client"][0], headers)
                scope |= {"client": (origin, 0), "scheme": _scheme(scope, headers)}
            scope["is_hidden"] = not is_told and any(sign in headers for sign in _SIGNS)
        await self._app(scope, receive, send)

    def _trusts(self, address: _Address | None) -> bool:
        return address is not None and any(address in network for network in self._trusted)

    def _origin(self, peer: str, headers: Headers) -> tuple[str, bool]:
        """Return the nearest address that is none of the proxies', and whether that is where a request comes from.

        What is no address ends the search: then a proxy's own is the nearest that is known.
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
    """Whether a request came through a proxy that is not trusted, or does not tell, where it comes from."""
    return bool(request.scope.get("is_hidden"))


def is_local(request: Request) -> bool:
    """Whether a request comes from this machine, as far as can be told."""
    address = _address(request.client.host) if request.client else None
    return not is_hidden(request) and address is not None and address.is_loopback


def _scheme(scope: Scope, headers: Headers) -> str:
    said = headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
    return said if said in {"http", "https"} else str(scope["scheme"])


def _address(text: str) -> _Address | None:
    """Read an address; also with a port behind it, as some proxies write."""
    host = text[1:].partition("]")[0] if text.startswith("[") else text
    if host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address

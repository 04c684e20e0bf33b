"""TCP sockets as a client wants them: no delay, kept alive, connected within a deadline."""

from __future__ import annotations

import contextlib
import os
import socket
import time

from pinlater.client.address import Address
from pinlater.errors import ServerUnavailable

_KEEPALIVE_IDLE_SECONDS = 30
_KEEPALIVE_INTERVAL_SECONDS = 10
_KEEPALIVE_PROBES = 3


def connect(address: Address, timeout: float) -> socket.socket:
    """Return a non-blocking socket to the first of the address's hosts that answers.

    Args:
        address: server to reach.
        timeout: seconds for all of its IP addresses together.

    Raises:
        ServerUnavailable: none answered in time, or the name is not known.
    """
    deadline = time.monotonic() + timeout
    failure: OSError = TimeoutError(f"no answer within {timeout:g} s")
    try:
        candidates = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise unavailable(address, error) from error
    for family, kind, protocol, _, target in candidates:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            break
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(remaining)
            sock.connect(target)
            sock.setblocking(False)
            tune(sock)
        except OSError as error:
            sock.close()
            failure = error
        else:
            return sock
    raise unavailable(address, failure) from failure


def tune(sock: socket.socket) -> None:
    """Set the options of a connected socket."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", _KEEPALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", _KEEPALIVE_PROBES),
    ):
        with contextlib.suppress(AttributeError, OSError):  # not every system has them
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def unavailable(address: Address, error: BaseException) -> ServerUnavailable:
    """Return the error to raise for a server that could not be reached, or was lost."""
    if isinstance(error, TimeoutError):
        return ServerUnavailable(f"{address}: no answer to the attempt to connect")
    return ServerUnavailable(f"{address}: {_reason(error).lower()}")


def _reason(error: BaseException) -> str:
    """Return the system's words for an error number, which asyncio hides behind its own."""
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__

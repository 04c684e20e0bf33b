"""The listening sockets: made before the server process starts, so that they outlive it.

While a server process is being replaced, connections wait in the socket's queue instead of being refused.
"""

from __future__ import annotations

import errno
import socket
import time

from pinlater.errors import ConfigError

_PATIENCE_SECONDS = 1.5
"""A server that was just killed may still be dying and hold its port."""


def listen(host: str, port: int, *, key: str, option: str) -> socket.socket:
    """Return a socket that listens on an address.

    Args:
        host: name or address.
        port: 0 takes any free one.
        key: setting that the port comes from, for the message.
        option: option that changes it.

    Raises:
        ConfigError: the port is taken, or the address is not this machine's.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return _bind(host, port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            reason = "is taken by another program" if error.errno == errno.EADDRINUSE else f"cannot be had: {error}"
            raise ConfigError(
                f"{host}:{port} {reason}; stop that program or choose another port with {option} or {key}"
            ) from error


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def address_of(listener: socket.socket) -> str:
    """Return ``host:port`` as bound."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

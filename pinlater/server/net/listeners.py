"""The listening sockets: made before the server process starts, so that they outlive it.

While a server process is being replaced, connections wait in the socket's queue instead of being refused.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
import stat
import time
from pathlib import Path

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


def listen_locally(path: Path, *, key: str) -> socket.socket:
    """Return a Unix socket that listens; what a server that was killed left at its path is replaced.

    Args:
        path: of the socket.
        key: setting that it comes from, for the message.

    Raises:
        ConfigError: another program listens there, or it cannot be made.
    """
    if _is_taken(path):
        raise ConfigError(f"{path} is taken by another program; choose another {key}")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise ConfigError(f"{path} cannot be listened on: {error.strerror or error}; check {key}") from error
    listener.setblocking(False)
    return listener


def _is_taken(path: Path) -> bool:
    """Whether there is something at a path that is not ours to replace."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return True
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, contextlib.suppress(OSError):
        probe.settimeout(1.0)
        probe.connect(str(path))
        return True
    return False


def is_exposed(host: str) -> bool:
    """Whether other machines might connect to a host of ours: all but loopback addresses."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False  # nobody can: listening there will fail, and say why
    return not ipaddress.ip_address(str(found[0][4][0]).partition("%")[0]).is_loopback


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

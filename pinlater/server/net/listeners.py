"""Open the listening sockets, before the server process starts so that they outlive it.

While a server process is being replaced, new connections wait in the socket's backlog instead of being refused.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import stat
import time
from pathlib import Path

from pinlater_supervisor import is_address_missing

from pinlater.errors import AddressMissing, ConfigError

_RETRY_SECONDS = 1.5
"""How long to retry: a server that was just killed may still hold its port."""


def listen(host: str, port: int, *, key: str, option: str) -> socket.socket:
    """Open a TCP socket that listens on an address.

    Args:
        host: name or address.
        port: 0 picks a free one.
        key: the setting of the port, for the error.
        option: the command-line option of the port, for the error.

    Raises:
        AddressMissing: the address does not belong to this machine, or not yet.
        ConfigError: the port is in use, or the address is invalid.
    """
    deadline = time.monotonic() + _RETRY_SECONDS
    while True:
        try:
            return _bind(host, port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            if is_address_missing(error):
                raise AddressMissing(
                    f"{host}:{port} cannot be opened: {error.strerror}; "
                    "does this machine have the address, and is its network up?"
                ) from error
            in_use = "is in use by another program; stop that program or"
            reason = in_use if error.errno == errno.EADDRINUSE else f"cannot be opened: {error.strerror};"
            raise ConfigError(f"{host}:{port} {reason} choose another port with {option} or {key}") from error


def listen_locally(path: Path, *, key: str) -> socket.socket:
    """Open a Unix socket that listens; replace a stale socket that a killed server has left.

    Args:
        path: where to create it.
        key: the setting of the path, for the error.

    Raises:
        ConfigError: another program listens there, or the socket cannot be created.
    """
    if _is_taken(path):
        raise ConfigError(f"{path} is in use by another program; choose another path with {key}")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise ConfigError(f"{path}: cannot open a socket: {error.strerror or error}; check {key}") from error
    listener.setblocking(False)
    return listener


def _is_taken(path: Path) -> bool:
    """Return whether a path holds a live socket, or something other than a socket."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return True
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True  # such as of a server that hangs, where no more connections can wait to be accepted
    return True


def is_exposed(host: str) -> bool:
    """Return whether other machines can reach a listening address: all but loopback addresses."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False  # opening the listener will fail, and report why
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
    """Return the bound ``host:port`` of a listener."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

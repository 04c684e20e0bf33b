"""Look-up of a server's name, in a thread: the system's resolver can take half a minute, and cannot be interrupted."""

from __future__ import annotations

import contextlib
import socket
import threading
from concurrent.futures import Future
from typing import Any

IpAddresses = list[tuple[Any, ...]]
"""What ``socket.getaddrinfo`` returns."""


def look_up(host: str, port: int) -> Future[IpAddresses]:
    """Return the future of a host's IP addresses; if the host is an IP address, it is done.

    The thread is not one of an executor: it keeps neither other work waiting nor the program from ending.
    """
    found: Future[IpAddresses] = Future()
    found.set_running_or_notify_cancel()  # so nobody can cancel it; a late result is dropped
    with contextlib.suppress(socket.gaierror):  # it is a name
        found.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
        return found
    try:
        threading.Thread(target=_find, args=(host, port, found), name="name look-up", daemon=True).start()
    except RuntimeError:  # no thread can be started when the interpreter is about to end
        _find(host, port, found)
    return found


def _find(host: str, port: int, found: Future[IpAddresses]) -> None:
    try:
        found.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except Exception as error:  # noqa: BLE001 - for the caller
        found.set_exception(error)

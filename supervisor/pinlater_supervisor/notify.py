"""Notifies systemd of states: the sd_notify protocol, without a library."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import MutableMapping
from math import inf
from time import monotonic_ns

log = logging.getLogger("pinlater_supervisor")

RETRY_SECONDS = 1.0


class Notifier:
    """Sends states to the socket that systemd names in the environment; silent without one.

    If the socket is full, because systemd is busy, what could not be sent is sent later, the last state of each kind.

    The variables are removed from `environ`, so that children cannot notify in the service's name.
    """

    def __init__(self, environ: MutableMapping[str, str] = os.environ) -> None:
        address = environ.pop("NOTIFY_SOCKET", "")
        self._socket = _connect(address) if address else None
        self._watchdog_seconds = _watchdog_seconds(environ)
        self._beat_at = 0.0 if self._socket and self._watchdog_seconds else inf
        self._status = ""
        self._unsent: dict[str, str] = {}  # by kind, the oldest first

    def ready(self) -> None:
        self._send("READY=1")

    def status(self, text: str) -> None:
        """Send a one-line status, if it differs from the last one."""
        if text != self._status:
            self._status = text
            self._send(f"STATUS={text}")

    def reloading(self) -> None:
        # systemd compares with its own clock to tell this reload from an earlier one.
        self._send(f"RELOADING=1\nMONOTONIC_USEC={monotonic_ns() // 1000}")

    def stopping(self, seconds: float) -> None:
        """Announce a stop that may take `seconds`, whatever the unit file says."""
        self._send(f"STOPPING=1\nEXTEND_TIMEOUT_USEC={round(seconds * 1e6)}")

    def beat(self, now: float) -> float:
        """Feed the watchdog at half its interval, and send what is unsent; return when to call again, inf for never."""
        if now >= self._beat_at:
            self._beat_at = now + self._watchdog_seconds / 2
            self._send("WATCHDOG=1")
        elif self._socket is not None:
            self._send_all(self._socket)
        return min(self._beat_at, now + RETRY_SECONDS) if self._unsent else self._beat_at

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, message: str) -> None:
        if self._socket is None:
            return
        kind = message.split("=", 1)[0]
        self._unsent.pop(kind, None)  # so that the order is that of the latest states
        self._unsent[kind] = message
        self._send_all(self._socket)

    def _send_all(self, link: socket.socket) -> None:
        for kind, message in list(self._unsent.items()):
            try:
                link.send(message.encode("utf-8", errors="replace"))
            except BlockingIOError:
                return
            except OSError as error:
                log.warning("cannot notify systemd of %s: %s", message.split("\n", 1)[0], error)
            del self._unsent[kind]


def _connect(address: str) -> socket.socket | None:
    # A name in the abstract name space is written with @ for its leading NUL byte.
    path = "\0" + address[1:] if address.startswith("@") else address
    link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    link.setblocking(False)
    try:
        link.connect(path)
    except OSError as error:
        log.warning("cannot reach NOTIFY_SOCKET %s: %s", address, error)
        link.close()
        return None
    return link


def _watchdog_seconds(environ: MutableMapping[str, str]) -> float:
    interval = environ.pop("WATCHDOG_USEC", "")
    pid = environ.pop("WATCHDOG_PID", "")
    if not interval.isdecimal() or (pid and pid != str(os.getpid())):
        return 0.0
    return int(interval) / 1e6

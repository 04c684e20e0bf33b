"""The jobs that are measured."""

from __future__ import annotations

import functools
import socket
import struct
import time

from pinlater import Job, JobContext

STARTED = struct.Struct("=qd")
"""What ``Tell`` sends: its number, and the monotonic clock at its start, which all processes of a machine share."""


class Nothing(Job, queue="nothing"):
    """Has a field to decode, and nothing to do."""

    number: int

    def run(self, context: JobContext) -> None:
        """Return."""


class Tell(Job, queue="tell"):
    """Tells a datagram socket when it started."""

    number: int
    listener: str

    def run(self, context: JobContext) -> None:  # noqa: ARG002 - part of every job
        """Send the time."""
        started = time.monotonic()
        _sender().sendto(STARTED.pack(self.number, started), self.listener)


@functools.cache
def _sender() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

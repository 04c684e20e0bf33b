"""The jobs used for measurements."""

from __future__ import annotations

import functools
import os
import socket
import struct
import time
from pathlib import Path

from pinlater import Constant, Job, JobContext

STARTED = struct.Struct("=qd")
"""What jobs report at their start: a number, and the monotonic clock, which all processes of a machine share."""
_STAY_SECONDS = 60.0
_BYTES_ACKED = struct.Struct("=Q")
"""``tcpi_bytes_acked`` of ``struct tcp_info``, which Linux has at offset 120 since 4.1."""


class Nothing(Job, queue="nothing"):
    """Has a field to decode, and does nothing."""

    number: int

    def run(self, context: JobContext) -> None:
        """Return."""


class One(Job[int], queue="called"):
    """Returns the smallest result."""

    number: int

    def run(self, context: JobContext) -> int:  # noqa: ARG002 - part of every job
        """Return 1."""
        return 1


class CallMany(Job[int], queue="callers"):
    """Calls many jobs, and returns the sum of their results."""

    jobs: int

    def run(self, context: JobContext) -> int:
        """Return the number of jobs."""
        return sum(context.call_all([One(number=number) for number in range(self.jobs)], name="one"))


class ManySteps(Job[tuple[float, int]], queue="steps"):
    """Runs many steps; returns how many seconds they took, and the bytes that the process sent meanwhile."""

    steps: int
    size: int

    def run(self, context: JobContext) -> tuple[float, int]:
        """Return the seconds and the bytes."""
        began, sent = time.monotonic(), _sent_bytes()
        for number in range(self.steps):
            context.step("one", _text, number, self.size)
        return time.monotonic() - began, _sent_bytes() - sent


def _text(_number: int, size: int) -> str:
    return "x" * size


def _sent_bytes() -> int:
    """Return how many bytes the connections of this process have sent and had acknowledged."""
    total = 0
    for file in Path("/proc/self/fd").iterdir():
        try:
            with socket.socket(fileno=os.dup(int(file.name))) as connection:
                if connection.family in {socket.AF_INET, socket.AF_INET6}:
                    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 128)
                    total += _BYTES_ACKED.unpack_from(info, 120)[0]
        except OSError:  # no connection
            continue
    return total


class Tell(Job, queue="tell"):
    """Reports its start to a datagram socket."""

    number: int
    listener: str

    def run(self, context: JobContext) -> None:  # noqa: ARG002 - part of every job
        """Send the time."""
        _tell(self.number, self.listener)


class Stay(Job, queue="stay", backoff=Constant(0)):
    """Reports its process id, and in the first attempt waits for its process to be killed."""

    listener: str

    def run(self, context: JobContext) -> None:
        """Send the process id and the time; in the first attempt, stay."""
        _tell(os.getpid(), self.listener)
        if context.attempt == 1:
            time.sleep(_STAY_SECONDS)


def _tell(number: int, listener: str) -> None:
    started = time.monotonic()
    _sender().sendto(STARTED.pack(number, started), listener)


@functools.cache
def _sender() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

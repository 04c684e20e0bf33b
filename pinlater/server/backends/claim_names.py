"""Claim descriptors: ``<host>:<port>:<server start>:<source>:<counter>`` (wire contract §8)."""

from __future__ import annotations

from itertools import count

_COUNTS_A_SLOT = 10**12
"""More claims than any process makes."""


class ClaimNames:
    """Makes claim descriptors; each is unique as long as host, port and start differ between servers.

    Args:
        host: this server's host; colons in it are replaced, so that the parts can be told apart.
        port: its Thrift port.
        start_ms: when it started, epoch milliseconds.
        slot: tells apart server processes that share a port and may have started at the same time.
    """

    def __init__(self, host: str, port: int, start_ms: int, slot: int = 0) -> None:
        self._head = f"{host.replace(':', '_')}:{port}:{start_ms}:"
        self._counter = count(slot * _COUNTS_A_SLOT + 1)

    def new(self, source: str) -> str:
        """Return the claim descriptor of one dequeue of ``source``."""
        return f"{self._head}{source}:{next(self._counter)}"


def source_of(claim: str) -> str:
    """Return the source part of a claim descriptor; it may contain colons."""
    return claim.split(":", 3)[-1].rpartition(":")[0]

"""Claim descriptors: ``<host>:<port>:<server start>:<source>:<counter>`` (wire contract §8)."""

from __future__ import annotations

from itertools import count


class ClaimNames:
    """Makes claim descriptors; each is unique as long as host, port and start differ between servers.

    Args:
        host: of this server; colons in it are replaced, so that the parts can be told apart.
        port: its Thrift port.
        start_ms: when it started.
    """

    def __init__(self, host: str, port: int, start_ms: int) -> None:
        self._head = f"{host.replace(':', '_')}:{port}:{start_ms}:"
        self._counter = count(1)

    def new(self, source: str) -> str:
        """Return the claim descriptor of one dequeue of ``source``."""
        return f"{self._head}{source}:{next(self._counter)}"


def source_of(claim: str) -> str:
    """Return the source part of a claim descriptor; it may have colons of its own."""
    return claim.split(":", 3)[-1].rpartition(":")[0]

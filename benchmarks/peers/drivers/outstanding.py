"""Keeps 32 calls outstanding from one process, each on its own connection: 32 processes would measure themselves.

For drivers that speak the protocol of the server directly; most clients make one call at a time.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Sequence

CONNECTIONS = 32


def keep_outstanding(
    address: tuple[str, int], requests: Sequence[bytes], is_answer: Callable[[bytes], bool]
) -> list[tuple[int, int]]:
    """Send all requests; on each connection, each after the answer to the previous one.

    Args:
        address: address of the server.
        requests: one request for each job.
        is_answer: returns whether bytes are a whole answer; raises if the answer is a refusal.

    Returns:
        Beginning and length of each call, in nanoseconds.
    """
    calls: list[tuple[int, int]] = []
    left = iter(requests)
    with selectors.DefaultSelector() as selector:
        callers = [_Caller(socket.create_connection(address)) for _ in requests[:CONNECTIONS]]
        for caller in callers:
            selector.register(caller.socket, selectors.EVENT_READ, caller)
        for caller in callers:
            caller.send(next(left))
        while len(calls) < len(requests):
            for key, _ in selector.select():
                if key.data.has_answer(is_answer):
                    calls.append((key.data.began, time.monotonic_ns() - key.data.began))
                    if (request := next(left, None)) is not None:
                        key.data.send(request)
    for caller in callers:
        caller.socket.close()
    return calls


class _Caller:
    """A connection with a call in flight, which began at ``began``."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.began = 0
        self._received = b""

    def send(self, request: bytes) -> None:
        self._received = b""
        self.began = time.monotonic_ns()
        self.socket.sendall(request)

    def has_answer(self, is_answer: Callable[[bytes], bool]) -> bool:
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("the server closed a connection with a call under way")
        self._received += data
        return is_answer(self._received)

"""Ports for programs that benchmarks and tests start, from a block that no other process uses."""

from __future__ import annotations

import itertools
import random
import socket
from collections.abc import Iterator

_FIRST_PORT = 10_000
_BLOCKS, _PORTS_OF_A_BLOCK = 55, 400
"""All are below the ports that Linux assigns to port 0."""


def _reserved_block() -> int:
    """Reserve a block for as long as this process lives; return its number.

    An abstract Unix socket is the lock, which the system frees with the process. Without it, another benchmark or run
    of the tests could start a program on a port between our look at it and the start of ours.
    """
    for number in random.sample(range(_BLOCKS), _BLOCKS):
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0pinlater-ports-{number}")
        except OSError:
            lock.close()
        else:
            lock.detach()
            return number
    return random.randrange(_BLOCKS)  # all are reserved: a clash is unlikely still


def _ports() -> Iterator[int]:
    """Yield the ports of the block, again and again, so that no port is returned again soon.

    The program that got one may not listen yet, or may be about to start again.
    """
    first = _FIRST_PORT + _reserved_block() * _PORTS_OF_A_BLOCK
    yield from itertools.cycle(range(first, first + _PORTS_OF_A_BLOCK))


_next_ports = _ports()


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def free_ports(count: int) -> list[int]:
    """Return different ports that nobody listens on."""
    return list(itertools.islice(filter(_is_free, _next_ports), count))

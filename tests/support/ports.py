"""Ports for the programs that tests start."""

import itertools
import os
import random
import socket

_PORTS_OF_A_PROCESS = 1500


def _ports():
    """Yield the ports of this process of the tests, below those that systems give to whoever asks for any.

    A server that stops for a moment so keeps its port.
    """
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw11").removeprefix("gw")) % 12
    first = 13_000 + process * _PORTS_OF_A_PROCESS
    at = random.randrange(_PORTS_OF_A_PROCESS)  # another run of the tests may be under way
    while True:
        yield first + at
        at = (at + 1) % _PORTS_OF_A_PROCESS


_next_ports = _ports()


def _is_free(port):
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def free_ports(count):
    """Return ports that nobody listens on, each another one."""
    return list(itertools.islice(filter(_is_free, _next_ports), count))


def free_port():
    """Return one such port."""
    [port] = free_ports(1)
    return port

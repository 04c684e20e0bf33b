"""Ports for the programs that tests start."""

from benchmarks.ports import free_ports

__all__ = ["free_port", "free_ports"]


def free_port():
    """Return a port that nobody listens on."""
    [port] = free_ports(1)
    return port

"""Who is connected, address by address, and how much of the server one address may take."""

from __future__ import annotations

import asyncio


class Peer:
    """One client address.

    Attributes:
        connections: how many it has now.
        slots: one for each call that it may have in the works.
    """

    __slots__ = ("address", "connections", "slots")

    def __init__(self, address: str, calls: int) -> None:
        self.address = address
        self.connections = 0
        self.slots = asyncio.Semaphore(calls)


class Peers:
    """The addresses that are connected now.

    Args:
        most_connections: that one address may have.
        most_calls: of one address in the works; further ones wait.
    """

    def __init__(self, most_connections: int, most_calls: int) -> None:
        self._most_connections = most_connections
        self._most_calls = most_calls
        self._known: dict[str, Peer] = {}
        self._local = Peer("this machine", most_calls)

    def __len__(self) -> int:
        return len(self._known)

    def admit(self, address: str) -> Peer | None:
        """Count one more connection; None if the address has as many as it may.

        Args:
            address: of the client; empty for a Unix socket, where there is nobody to tell apart.
        """
        if not address:
            return self._local
        peer = self._known.get(address)
        if peer is None:
            peer = self._known[address] = Peer(address, self._most_calls)
        if peer.connections >= self._most_connections:
            return None
        peer.connections += 1
        return peer

    def left(self, peer: Peer) -> None:
        """Count one less."""
        peer.connections -= 1
        if peer.connections <= 0:
            self._known.pop(peer.address, None)

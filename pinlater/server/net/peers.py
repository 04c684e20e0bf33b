"""Count connections and calls by client address, and limit them."""

from __future__ import annotations

import asyncio


class Peer:
    """One client address.

    Attributes:
        connections: how many are open.
        call_slots: one for each call that may run at once.
    """

    __slots__ = ("address", "call_slots", "connections")

    def __init__(self, address: str, calls: int) -> None:
        self.address = address
        self.connections = 0
        self.call_slots = asyncio.Semaphore(calls)


class Peers:
    """Tracks the connected client addresses.

    Args:
        most_connections: of one address.
        most_calls: running calls of one address; further ones wait.
    """

    def __init__(self, most_connections: int, most_calls: int) -> None:
        self._most_connections = most_connections
        self._most_calls = most_calls
        self._known: dict[str, Peer] = {}
        self._local = Peer("this machine", most_calls)

    def __len__(self) -> int:
        return len(self._known)

    def admit(self, address: str) -> Peer | None:
        """Count one more connection of an address; return None if it has too many.

        Args:
            address: of the client; empty for a Unix socket, which has no limit.
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

    def remove(self, peer: Peer) -> None:
        """Count one connection less."""
        peer.connections -= 1
        if peer.connections <= 0:
            self._known.pop(peer.address, None)

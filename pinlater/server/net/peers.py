"""Count connections and calls by client address, and limit them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pinlater.server.broker.call_slots import CallSlots

if TYPE_CHECKING:
    import asyncio

    from pinlater.server.net.tls_transport import TlsTransport


def host_of(transport: asyncio.Transport | TlsTransport) -> str:
    """Return the client's host; empty for a Unix socket."""
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) else ""


class Peer:
    """One client address.

    Attributes:
        connections: how many it has open.
        call_slots: one for each of its calls that may run at once.
    """

    __slots__ = ("address", "call_slots", "connections")

    def __init__(self, address: str, call_slots: CallSlots) -> None:
        self.address = address
        self.connections = 0
        self.call_slots = call_slots


class Peers:
    """Tracks the connected client addresses.

    Args:
        most_connections: most connections of one address; more are refused.
        most_calls: most running calls of one address; more wait.
        call_slots: one for each call that the server may run at once.
    """

    def __init__(self, most_connections: int, most_calls: int, call_slots: CallSlots) -> None:
        self._most_connections = most_connections
        self._most_calls = most_calls
        self._call_slots = call_slots
        self._known: dict[str, Peer] = {}
        self._local = Peer("this machine", CallSlots(most_calls, call_slots))

    def __len__(self) -> int:
        return len(self._known)

    def admit(self, address: str) -> Peer | None:
        """Count one more connection of an address; return None if it has too many.

        Args:
            address: the client's; empty for a Unix socket, which has no limit.
        """
        if not address:
            return self._local
        peer = self._known.get(address)
        if peer is None:
            peer = self._known[address] = Peer(address, CallSlots(self._most_calls, self._call_slots))
        if peer.connections >= self._most_connections:
            return None
        peer.connections += 1
        return peer

    def remove(self, peer: Peer) -> None:
        """Count one connection less."""
        peer.connections -= 1
        if peer.connections <= 0:
            self._known.pop(peer.address, None)

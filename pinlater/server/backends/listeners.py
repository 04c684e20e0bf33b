"""Where the servers of a store listen for each other's notifications."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple


class Listener(NamedTuple):
    """A process of a server, and where it listens.

    Attributes:
        id: a part that all processes of a server share, and a random part.
        host: the address at which it listens.
        port: the UDP port at which it receives datagrams.
        secret: the key with which datagrams are signed.
    """

    id: bytes
    host: str
    port: int
    secret: bytes


class StoreListeners(NamedTuple):
    """The list of a store's servers, which is kept in the store.

    Attributes:
        database: host and port of a database: servers listen at the address from which they reach it.
        meet: puts a listener into the list for a number of milliseconds, and returns the others in it.
    """

    database: tuple[str, int]
    meet: Callable[[Listener, int], Awaitable[Sequence[Listener]]]

"""Where the servers of a store listen for notifications of one another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple


class Listener(NamedTuple):
    """A process of a server, and where it listens.

    Attributes:
        id: a part that all processes of a server have in common, and a random one.
        host: address.
        port: of datagrams.
        secret: what they are signed with.
    """

    id: bytes
    host: str
    port: int
    secret: bytes


class StoreListeners(NamedTuple):
    """The list of a store's servers, which is kept in the store.

    Attributes:
        database: host and port of a database: servers listen at the address from which they reach it.
        meet: puts a listener into the list for a time in milliseconds, and returns the others that are in it.
    """

    database: tuple[str, int]
    meet: Callable[[Listener, int], Awaitable[Sequence[Listener]]]

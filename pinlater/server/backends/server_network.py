"""How the processes of a store's servers reach each other; no message has to arrive."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from hashlib import blake2b
from typing import Protocol

SERVER_ID_BYTES = 8
"""The first bytes of a process's id, which all processes of its server share."""

PROCESS_ID_BYTES = 16


class ServerNetwork(Protocol):
    """Sends messages to the processes of a store's other servers, and receives theirs."""

    own_id: bytes
    """The id of this process."""

    @property
    def ids(self) -> Collection[bytes]:
        """The ids of the other servers' processes that are known."""

    async def run(self, receive: Callable[[bytes], None], on_met: Callable[[], None]) -> None:
        """Find the other servers, and receive their messages, until cancelled.

        Args:
            receive: called with each message.
            on_met: called when processes were found that may have sent messages to others before.
        """

    def send(self, message: bytes, to: bytes) -> None:
        """Send a message to a process, which may have left."""

    def send_to_all(self, message: bytes) -> None:
        """Send a message to all processes of other servers."""


def new_process_id(server: str) -> bytes:
    """Return an id for a process of a server, given the server's name."""
    server_id = blake2b(server.encode(), digest_size=SERVER_ID_BYTES).digest()
    return server_id + os.urandom(PROCESS_ID_BYTES - SERVER_ID_BYTES)


def server_of(process_id: bytes) -> bytes:
    """Return the part of a process's id that all processes of its server share."""
    return process_id[:SERVER_ID_BYTES]

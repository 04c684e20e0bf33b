"""Which worker this is: told apart from all others, also from the one that ran here before."""

from __future__ import annotations

import os
import secrets
import socket
import time
from typing import NamedTuple, Self


class Origin(NamedTuple):
    """One start of a worker.

    Attributes:
        id: random.
        host: name of its machine.
        pid: of its master.
        started_ms: epoch milliseconds.
    """

    id: str
    host: str
    pid: int
    started_ms: int

    @classmethod
    def here(cls) -> Self:
        """Begin a worker whose master is this process."""
        return cls(secrets.token_hex(5), socket.gethostname(), os.getpid(), int(time.time() * 1000))

    def new_source(self, pid: int) -> str:
        """Return how a process of the worker calls itself to a server: as no other process ever did, on any host."""
        return f"worker:{self.host.replace(':', '_')}:{pid}:{self.id}{secrets.token_hex(2)}"

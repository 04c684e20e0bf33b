"""Identity of a worker, unique across hosts and restarts."""

from __future__ import annotations

import os
import secrets
import socket
import time
from typing import NamedTuple, Self


class Origin(NamedTuple):
    """Identifies one start of a worker.

    Attributes:
        id: random id.
        host: name of its machine.
        pid: process id of its master.
        started_ms: start of the worker, epoch milliseconds.
    """

    id: str
    host: str
    pid: int
    started_ms: int

    @classmethod
    def here(cls) -> Self:
        """Return a new origin with this process as the master."""
        return cls(secrets.token_hex(5), socket.gethostname(), os.getpid(), int(time.time() * 1000))

    def new_source(self, pid: int) -> str:
        """Return the unique source name that a process of the worker uses in its calls."""
        return f"worker:{self.host.replace(':', '_')}:{pid}:{self.id}{secrets.token_hex(4)}"

"""In whose name calls are made."""

from __future__ import annotations

import functools
import os
import socket
import sys
from pathlib import Path
from typing import Any

from pinlater.protocol.idempotency import new_key
from pinlater.protocol.messages import RequestContext


@functools.lru_cache(maxsize=1)
def default_source(pid: int) -> str:
    """Return ``<program>:<host>:<pid>``, which tells a process's claims from those of all others."""
    path = Path(sys.argv[0]) if sys.argv and sys.argv[0] else Path("python")
    program = path.parent.name if path.name == "__main__.py" else path.name  # python -m package
    return f"{program}:{socket.gethostname()}:{pid}"


class CallSource:
    """In whose name calls are built.

    Args:
        source: who calls; None is this process, also after a fork.
        is_plain: its calls have no idempotency keys, and it does not understand the message of a server that stops.
    """

    def __init__(self, source: str | None = None, *, is_plain: bool = False) -> None:
        self._source = source
        self._is_plain = is_plain
        self._context = None if source is None else self.new_context()

    @property
    def source(self) -> str:
        """Who calls."""
        return self._source or default_source(os.getpid())

    def context(self, *, has_key: bool) -> RequestContext:
        """Return what a call says of whom it comes from; those without a key share one."""
        if has_key and not self._is_plain:
            return self.new_context(new_key())
        return self._context or self.new_context()

    def new_context(self, key: bytes | None = None, **fields: Any) -> RequestContext:
        """Return what one call says of whom it comes from."""
        hears_stopping = None if self._is_plain else True
        return RequestContext(source=self.source, idempotencyKey=key, hearsStopping=hears_stopping, **fields)

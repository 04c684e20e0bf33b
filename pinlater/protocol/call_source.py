"""The source of calls: the name of the program that makes them."""

from __future__ import annotations

import functools
import os
import socket
import sys
from pathlib import Path

from pinlater.protocol.idempotency import new_key
from pinlater.protocol.messages import RequestContext


@functools.cache
def default_source() -> str:
    """Return ``<program>:<host>:<pid>``, which distinguishes the claims of a process from all others."""
    path = Path(sys.argv[0]) if sys.argv and sys.argv[0] else Path("python")
    program = path.parent.name if path.name == "__main__.py" else path.name  # python -m package
    return f"{program}:{socket.gethostname()}:{os.getpid()}"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=default_source.cache_clear)


class CallSource:
    """Builds the request contexts of the calls of one source.

    Args:
        source: name of the caller; None: that of this process, also after a fork.
        is_plain: whether its calls have no idempotency keys and do not ask for the stopping notice.
    """

    def __init__(self, source: str | None = None, *, is_plain: bool = False) -> None:
        self._source = source
        self._hears_stopping = None if is_plain else True
        self._context = None if source is None else self.new_context()

    @property
    def source(self) -> str:
        """Name of the caller."""
        return self._source or default_source()

    def context(self, *, has_key: bool) -> RequestContext:
        """Return the context of a call; calls without an idempotency key may share one."""
        if has_key and self._hears_stopping:
            return self.new_context(new_key())
        return self._context or self.new_context()

    def new_context(
        self, key: bytes | None = None, is_repeat: bool | None = None, keep_ms: int | None = None
    ) -> RequestContext:
        """Return a new context for one call."""
        return RequestContext(self.source, "", key, is_repeat, keep_ms, self._hears_stopping)

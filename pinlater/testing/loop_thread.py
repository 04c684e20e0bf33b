"""An event loop in a separate thread, for blocking code that needs something asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

T = TypeVar("T")

_PATIENCE_SECONDS = 30.0
"""Longest duration of one piece of work; a hanging test fails after it."""


class LoopThread:
    """Runs coroutines from another thread, between ``__enter__`` and ``__exit__``.

    Args:
        name: name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.run(self._loop.shutdown_default_executor())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_PATIENCE_SECONDS)
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` in the loop; return its result or raise its exception.

        Raises:
            TimeoutError: it took longer than half a minute.
        """
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_SECONDS)

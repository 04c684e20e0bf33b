"""Spread the connections of a shared port over several processes: the one with the fewest accepts the next."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path

SLOTS = 256
"""More slots than a server has processes, even while each is being replaced."""

STALE_SECONDS = 3.0
"""A process whose heartbeat is older than this is ignored."""

_WORD_BYTES = 8
_WORDS_PER_SLOT = 2  # connections; last heartbeat in nanoseconds, 0 is none


class ConnectionBalancer:
    """Shares the connection count of each process in mapped memory. Each word has one writer, so no lock is needed.

    Args:
        file: the file to map, which only the processes of this server share.
        slot: number of this process, unique among the live ones.
        count: returns the number of connections of this process.
    """

    def __init__(self, file: Path, slot: int, count: Callable[[], int]) -> None:
        size = SLOTS * _WORDS_PER_SLOT * _WORD_BYTES
        number = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(number, size)  # keeps what the others have written
            self._words = memoryview(mmap.mmap(number, size)).cast("Q")
        finally:
            os.close(number)
        self._at = slot % SLOTS * _WORDS_PER_SLOT
        self._count = count
        self.withdraw()

    def publish(self) -> None:
        """Publish the connection count of this process, and its heartbeat; call it at least once a second."""
        self._words[self._at] = self._count()
        self._words[self._at + 1] = time.monotonic_ns()

    def withdraw(self) -> None:
        """Withdraw this process: the others no longer wait for it."""
        self._words[self._at + 1] = 0

    def should_accept(self) -> bool:
        """Return whether no other live process has fewer connections."""
        alive_since = time.monotonic_ns() - int(STALE_SECONDS * 1e9)
        counts, signs = self._words[::2], self._words[1::2]
        ours = self._count()
        return not any(sign > alive_since and count < ours for count, sign in zip(counts, signs, strict=True))

"""Which of several processes takes the next connection of the port that they share: the one that has the fewest."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path

SLOTS = 256
"""More than there are processes, also while each is being replaced."""

STALE_SECONDS = 3.0
"""A process that has shown no life for so long is not waited for."""

_WORD_BYTES = 8
_WORDS_PER_SLOT = 2  # connections; last sign of life in nanoseconds, 0 is none


class Turns:
    """The connections of each process, in memory that all of them see. Every word has one writer, so there is no lock.

    Args:
        file: of the processes' own.
        slot: number of this process; no other living one has it.
        count: returns how many connections this process has.
    """

    def __init__(self, file: Path, slot: int, count: Callable[[], int]) -> None:
        size = SLOTS * _WORDS_PER_SLOT * _WORD_BYTES
        number = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(number, size)  # what others have written stays
            self._words = memoryview(mmap.mmap(number, size)).cast("Q")
        finally:
            os.close(number)
        self._at = slot % SLOTS * _WORDS_PER_SLOT
        self._count = count
        self.leave()

    def show(self) -> None:
        """Tell the others how many connections there are here; also a sign of life, for every second."""
        self._words[self._at] = self._count()
        self._words[self._at + 1] = time.monotonic_ns()

    def leave(self) -> None:
        """Take no more connections."""
        self._words[self._at + 1] = 0

    def is_ours(self) -> bool:
        """Whether no other process that shows life has fewer connections."""
        alive_since = time.monotonic_ns() - int(STALE_SECONDS * 1e9)
        counts, signs = self._words[::2], self._words[1::2]
        ours = self._count()
        return not any(sign > alive_since and count < ours for count, sign in zip(counts, signs, strict=True))

"""The page of memory a child and the master share: signs of life, readiness, stage of stopping, status."""

from __future__ import annotations

import mmap
from time import monotonic_ns

RUNNING, DRAINING, STOPPING_NOW = 0, 1, 2

_BEAT, _READY, _STAGE, _LENGTH = range(4)
_TEXT = 64
_TEXT_MAX_BYTES = 512


class Cell:
    """Written by both sides without a lock: every field is one machine word, or only for people to read."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._words = memoryview(self._memory)[:_TEXT].cast("Q")

    def beat(self) -> None:
        """Note that the child lives. The monotonic clock is the same one in all processes of a host."""
        self._words[_BEAT] = monotonic_ns()

    @property
    def beat_seconds(self) -> float:
        """When the child last gave a sign of life, on `time.monotonic()`; 0 if never."""
        return self._words[_BEAT] / 1e9

    @property
    def is_ready(self) -> bool:
        return self._words[_READY] != 0

    def set_ready(self) -> None:
        self.beat()
        self._words[_READY] = 1

    @property
    def stage(self) -> int:
        """RUNNING, DRAINING or STOPPING_NOW; it only rises."""
        return self._words[_STAGE]

    def raise_stage(self, stage: int) -> None:
        self._words[_STAGE] = max(stage, self._words[_STAGE])

    @property
    def status(self) -> str:
        length = min(self._words[_LENGTH], _TEXT_MAX_BYTES)
        # A text read while it is written may be torn; it is only shown to people.
        return self._memory[_TEXT : _TEXT + length].decode("utf-8", errors="replace")

    def set_status(self, text: str) -> None:
        data = text.encode("utf-8", errors="replace")[:_TEXT_MAX_BYTES]
        self._memory[_TEXT : _TEXT + len(data)] = data
        self._words[_LENGTH] = len(data)

    def close(self) -> None:
        self._words.release()
        self._memory.close()

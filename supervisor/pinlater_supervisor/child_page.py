"""The page of memory a child and the master share: signs of life, readiness, stage of stopping, status."""

from __future__ import annotations

import mmap
from math import inf
from time import monotonic_ns

RUNNING, DRAINING, STOPPING_NOW = 0, 1, 2

_BEAT, _READY, _STAGE, _LENGTH, _KILL_AT, _LOOK_AT, _HEARD, _WEIGHT, _FALLING, _RETURNED = range(10)
_TEXT = 128
_TEXT_MAX_BYTES = 512
_NEVER = 2**64 - 1


class Cell:
    """Written by both sides without a lock: every field is one machine word, or only for people to read."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._words = memoryview(self._memory)[:_TEXT].cast("Q")
        self._words[_KILL_AT] = self._words[_LOOK_AT] = _NEVER

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

    @property
    def ready_rss_bytes(self) -> int:
        """Resident memory that the child had when it became ready, before any work."""
        return self._words[_WEIGHT]

    def set_ready(self, rss_bytes: int) -> None:
        self.beat()
        self._words[_WEIGHT] = rss_bytes
        self._words[_READY] = 1

    @property
    def kill_at_seconds(self) -> float:
        """When the child wants to be killed, on `time.monotonic()`; inf if it does not."""
        return _seconds(self._words[_KILL_AT])

    def set_kill_at(self, moment: float) -> bool:
        """Set by the child; whether the master would look too late if nobody woke it."""
        self._words[_KILL_AT] = _nanoseconds(moment)
        return self._words[_KILL_AT] < self._words[_LOOK_AT]

    def set_look_at(self, moment: float) -> None:
        """Set by the master: when it will look at `kill_at_seconds` again."""
        self._words[_LOOK_AT] = _nanoseconds(moment)

    @property
    def is_being_killed(self) -> bool:
        """Whether the master kills the child right now for its time-out, unless it takes that back at once."""
        return self._words[_FALLING] != 0

    def set_being_killed(self, is_so: bool) -> None:
        """Set by the master, which then looks at `kill_at_seconds` for the last time."""
        self._words[_FALLING] = is_so

    @property
    def has_returned(self) -> bool:
        """Whether the child's `run` came to its end, so that its exit code is its own word."""
        return self._words[_RETURNED] != 0

    def note_returned(self) -> None:
        """Set by the child."""
        self._words[_RETURNED] = 1

    @property
    def stage(self) -> int:
        """RUNNING, DRAINING or STOPPING_NOW; it only rises."""
        return self._words[_STAGE]

    def raise_stage(self, stage: int) -> None:
        self._words[_STAGE] = max(stage, self._words[_STAGE])

    @property
    def has_heard(self) -> bool:
        """Whether the child's handlers have answered the signals that announced the present stage."""
        return self._words[_HEARD] >= self._words[_STAGE]

    def note_heard(self, stage: int) -> None:
        """Set by the child, by the handler that answers the signal."""
        self._words[_HEARD] = max(stage, self._words[_HEARD])

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


def _seconds(word: int) -> float:
    return inf if word == _NEVER else word / 1e9


def _nanoseconds(moment: float) -> int:
    return _NEVER if moment == inf else max(0, round(moment * 1e9))

"""The memory page that a child and the master share: heartbeat, readiness, stop stage, status."""

from __future__ import annotations

import mmap
from math import inf
from time import monotonic_ns

RUNNING, DRAINING, STOPPING_NOW = 0, 1, 2

_BEAT, _READY, _STAGE, _LENGTH, _KILL_AT, _NEXT_CHECK_AT, _ANSWERED, _READY_RSS, _BEING_KILLED, _RETURNED = range(10)
_TEXT = 128
_TEXT_MAX_BYTES = 512
_NEVER = 2**64 - 1


class ChildPage:
    """A page that both sides write without a lock: every field is one machine word, or only shown to people."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._words = memoryview(self._memory)[:_TEXT].cast("Q")
        self._words[_KILL_AT] = self._words[_NEXT_CHECK_AT] = _NEVER

    def beat(self) -> None:
        """Record a heartbeat. All processes of a host share the monotonic clock."""
        self._words[_BEAT] = monotonic_ns()

    @property
    def beat_seconds(self) -> float:
        """Time of the last heartbeat on `time.monotonic()`; 0 if there was none."""
        return self._words[_BEAT] / 1e9

    @property
    def is_ready(self) -> bool:
        return self._words[_READY] != 0

    @property
    def ready_rss_bytes(self) -> int:
        """Resident memory in bytes when the child became ready, before any work."""
        return self._words[_READY_RSS]

    def set_ready(self, rss_bytes: int) -> None:
        self.beat()
        self._words[_READY_RSS] = rss_bytes
        self._words[_READY] = 1

    @property
    def kill_at_seconds(self) -> float:
        """When the child wants to be killed, on `time.monotonic()`; inf if it does not."""
        return _seconds(self._words[_KILL_AT])

    def set_kill_at(self, moment: float) -> bool:
        """Set the child's time-out; return whether the master has to be woken to check it in time."""
        self._words[_KILL_AT] = _nanoseconds(moment)
        return self._words[_KILL_AT] < self._words[_NEXT_CHECK_AT]

    def set_next_check_at(self, moment: float) -> None:
        """Publish when the master will next read `kill_at_seconds`."""
        self._words[_NEXT_CHECK_AT] = _nanoseconds(moment)

    @property
    def is_being_killed(self) -> bool:
        """Whether the master is killing the child for its time-out; it may still cancel that."""
        return self._words[_BEING_KILLED] != 0

    def set_being_killed(self, is_so: bool) -> None:
        """Announce or cancel the kill; the master then reads `kill_at_seconds` for the last time."""
        self._words[_BEING_KILLED] = is_so

    @property
    def has_returned(self) -> bool:
        """Whether the child's `run` returned, so that its exit code means something."""
        return self._words[_RETURNED] != 0

    def set_returned(self) -> None:
        """Record that `run` returned."""
        self._words[_RETURNED] = 1

    @property
    def stage(self) -> int:
        """RUNNING, DRAINING or STOPPING_NOW; it only rises."""
        return self._words[_STAGE]

    def raise_stage(self, stage: int) -> None:
        self._words[_STAGE] = max(stage, self._words[_STAGE])

    @property
    def has_answered(self) -> bool:
        """Whether the child's handlers have run for the signals of the current stage."""
        return self._words[_ANSWERED] >= self._words[_STAGE]

    def record_answer(self, stage: int) -> None:
        """Record that the child's handler has run."""
        self._words[_ANSWERED] = max(stage, self._words[_ANSWERED])

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

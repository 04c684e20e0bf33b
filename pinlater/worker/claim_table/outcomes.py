"""Results and failures of jobs, in the space left by the descriptors of their batch, so the keeper can ack the jobs.

Results lie behind the descriptors, one after the other, and stay there. Failures lie at the end of the memory, the
oldest last. A new one for which there is no room takes that of the older ones, which are more likely acked.

The entry of a result has the position of the job plus one, the length and the bytes; that of a failure has the bytes,
the length and the position. A zero position ends a list. The process may be killed between any two writes. So the bytes
of an entry and the end mark behind it are written first, then its head, and only then the job's state.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

_HEAD = struct.Struct("<HI")
_FAILURE_HEAD = struct.Struct("<IH")
HEAD_BYTES = _HEAD.size
"""The last bytes of the memory, which no descriptor may use: the head of the oldest failure."""
_END = bytes(HEAD_BYTES)


class OutcomeArea:
    """Writes the outcomes of one batch.

    Args:
        memory: memory of the batch.
        on_drop: called when failures were dropped for a result, before it takes their room.
    """

    def __init__(self, memory: memoryview, on_drop: Callable[[], object]) -> None:
        self._memory = memory
        self._on_drop = on_drop
        self._results_end = self._failures_start = len(memory)

    def clear(self, at: int) -> None:
        """Start over for another batch, whose descriptors end at ``at``."""
        self._results_end = at
        self._memory[at : at + HEAD_BYTES] = _END
        self._drop_failures()

    def put_result(self, position: int, result: bytes) -> bool:
        """Add the result of a job; return False if there is no room for it."""
        at = self._results_end + HEAD_BYTES
        end = at + len(result)
        if end + HEAD_BYTES > len(self._memory) - HEAD_BYTES:
            return False
        if end + HEAD_BYTES > self._failures_start - HEAD_BYTES:
            self._drop_failures()
            self._on_drop()
        self._memory[at : end + HEAD_BYTES] = result + _END
        _HEAD.pack_into(self._memory, self._results_end, position + 1, len(result))
        self._results_end = end
        return True

    @property
    def most_failure_bytes(self) -> int:
        """Most bytes of a failure for which there is room; not positive if there is none."""
        return len(self._memory) - self._results_end - 3 * HEAD_BYTES

    def put_failure(self, position: int, failure: bytes) -> None:
        """Add the failure of a job, of at most ``most_failure_bytes``; drop older ones if there is no room for it."""
        if self._failures_start - len(failure) < self._results_end + 3 * HEAD_BYTES:
            self._drop_failures()
        head_at = self._failures_start - HEAD_BYTES
        start = head_at - len(failure)
        self._memory[start - HEAD_BYTES : head_at] = _END + failure
        _FAILURE_HEAD.pack_into(self._memory, head_at, len(failure), position + 1)
        self._failures_start = start

    def _drop_failures(self) -> None:
        self._memory[len(self._memory) - HEAD_BYTES :] = _END
        self._failures_start = len(self._memory)


def read_results(memory: memoryview, at: int) -> dict[int, bytes]:
    """Return the results in a copy of a batch's memory, by position; the descriptors end at ``at``."""
    found: dict[int, bytes] = {}
    while at + HEAD_BYTES <= len(memory):
        number, length = _HEAD.unpack_from(memory, at)
        at += HEAD_BYTES
        if not number or at + length > len(memory):
            break
        found[number - 1] = bytes(memory[at : at + length])
        at += length
    return found


def read_failures(memory: memoryview, at: int) -> dict[int, bytes]:
    """Return the failures in a copy of a batch's memory, by position; the descriptors end at ``at``."""
    found: dict[int, bytes] = {}
    end = len(memory)
    while end - HEAD_BYTES >= at:
        length, number = _FAILURE_HEAD.unpack_from(memory, end - HEAD_BYTES)
        start = end - HEAD_BYTES - length
        if not number or start < at:
            break
        found[number - 1] = bytes(memory[start : start + length])
        end = start
    return found

"""Results of jobs, in the space left by the descriptors of their batch, so the keeper can ack jobs of a dead process.

Each entry has the position of the job plus one, the length and the bytes; a zero position ends the list. The process
may be killed, or the keeper may read, between any two writes. So the bytes of an entry and the end mark behind it are
written first, then its head, and only then the job's state.
"""

from __future__ import annotations

import struct

_HEAD = struct.Struct("<HI")
_END = bytes(_HEAD.size)


class ResultArea:
    """Writes the results of one batch.

    Args:
        memory: memory of the batch.
    """

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._at = len(memory)

    def clear(self, at: int) -> None:
        """Start over for another batch, whose descriptors end at ``at``."""
        self._at = at
        self._memory[at : at + _HEAD.size] = _END[: len(self._memory) - at]

    def put(self, position: int, result: bytes) -> bool:
        """Add the result of a job; return False if there is no room for it."""
        at = self._at + _HEAD.size
        end = at + len(result)
        if end + _HEAD.size > len(self._memory):
            return False
        self._memory[at : end + _HEAD.size] = result + _END
        _HEAD.pack_into(self._memory, self._at, position + 1, len(result))
        self._at = end
        return True


def read_results(memory: memoryview, at: int) -> dict[int, bytes]:
    """Return the results in a copy of a batch's memory, by position; the descriptors end at ``at``."""
    found: dict[int, bytes] = {}
    while at + _HEAD.size <= len(memory):
        number, length = _HEAD.unpack_from(memory, at)
        at += _HEAD.size
        if not number or at + length > len(memory):
            break
        found[number - 1] = bytes(memory[at : at + length])
        at += length
    return found

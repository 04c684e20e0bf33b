"""Notices of death, from the master to the keeper.

They lie in shared memory until the keeper has acted on them, so neither its own death nor a server that is away
loses one. A pipe wakes it.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from pinlater.worker.claim_table.snapshot import ALONE, Holding, Layout, read_holding

_FACTS_BYTES = 4096
_FREE, _POSTED = range(2)


class Facts(msgspec.Struct, frozen=True):
    """How a job process ended.

    Attributes:
        pid: its process id.
        in_words: cause, memory, run time.
        was_interrupted: whether it ended because the worker wanted it to, and not through its job.
        died_ns: monotonic time at which the master learnt of it.
        is_timeout: whether it was killed because its job ran for longer than its class allows.
    """

    pid: int
    in_words: str
    was_interrupted: bool
    died_ns: int
    is_timeout: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """A process has died; this is what it held."""

    place: int
    facts: Facts
    holding: Holding


class Notices:
    """All notices that are not handled yet; made by the master before it forks.

    Args:
        places: for how many there is room.
        layout: of the dead processes' slots.

    Attributes:
        doorbell: readable when a notice was posted.
    """

    def __init__(self, places: int, layout: Layout = ALONE) -> None:
        self._layout = layout
        self._place_bytes = _FACTS_BYTES + layout.slot_bytes
        states_bytes = -(-places // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = memoryview(mmap.mmap(-1, states_bytes + places * self._place_bytes))
        self._states = memory[:places]
        self._places = memory[states_bytes:]
        self.doorbell, self._bell_pull = os.pipe()
        os.set_blocking(self.doorbell, False)
        os.set_blocking(self._bell_pull, False)

    @property
    def are_pending(self) -> bool:
        """Whether there is one that was not handled."""
        return any(bytes(self._states))

    def post(self, facts: Facts, area: bytes) -> bool:
        """Leave a notice, with a copy of the slot of the dead; return False when there is no room for it."""
        place = bytes(self._states).find(_FREE)
        if place < 0:
            return False
        text = msgspec.json.encode(facts)
        start = place * self._place_bytes
        self._places[start : start + _FACTS_BYTES] = text.ljust(_FACTS_BYTES)[:_FACTS_BYTES]
        self._places[start + _FACTS_BYTES : start + _FACTS_BYTES + len(area)] = area
        self._states[place] = _POSTED
        with suppress(OSError):  # a full pipe wakes the keeper, too
            os.write(self._bell_pull, b"\0")
        return True

    def pending(self) -> Iterator[Notice]:
        """Yield what was posted and not handled; silences the bell first."""
        with suppress(BlockingIOError):
            os.read(self.doorbell, 65536)
        for place, state in enumerate(bytes(self._states)):
            if state == _POSTED:
                start = place * self._place_bytes
                data = bytes(self._places[start : start + self._place_bytes])
                facts = msgspec.json.decode(data[:_FACTS_BYTES], type=Facts)
                yield Notice(place, facts, read_holding(data[_FACTS_BYTES:], self._layout))

    def handled(self, notice: Notice) -> None:
        """Forget a notice."""
        self._states[notice.place] = _FREE

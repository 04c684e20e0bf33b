"""The claim board: what every job process holds, in memory shared with the keeper and the master.

Each process writes a slot of its own. So its claims can be renewed while it is busy, and what it held can be read
when it has died.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator

from pinlater.worker.claim_table.contact import CONTACT_WORDS, Contact, why_out_of_contact
from pinlater.worker.claim_table.row import Slot
from pinlater.worker.claim_table.snapshot import ALONE, Layout

_WORDS_BYTES = 64
_RETRIES_DUE_MS, _BURST_IS_OVER, _CONTACT = range(3)


class Board:
    """The whole board, made by the master before it forks. Memory is taken only for slots in use.

    Args:
        slots: how many job processes there can be at once.
        layout: of their slots.

    Attributes:
        layout: the same.
        contact: the keeper's with the servers.
    """

    def __init__(self, slots: int, layout: Layout = ALONE) -> None:
        self.layout = layout
        header_bytes = -(-(_WORDS_BYTES + slots) // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = memoryview(mmap.mmap(-1, header_bytes + slots * layout.slot_bytes))
        self._words = memory[:_WORDS_BYTES].cast("Q")
        self.contact = Contact(self._words[_CONTACT : _CONTACT + CONTACT_WORDS])
        self._in_use = memory[_WORDS_BYTES : _WORDS_BYTES + slots]
        self._areas = memory[header_bytes:]

    def slot(self, number: int) -> Slot:
        """Return the slot with that number, which is in use from then on."""
        self._in_use[number] = 1
        return self._slot(number)

    def _slot(self, number: int) -> Slot:
        size = self.layout.slot_bytes
        return Slot(self._areas[number * size : (number + 1) * size], self.layout)

    def used(self, numbers: Iterable[int]) -> list[int]:
        """Return those of some slots' numbers that were ever in use."""
        return [number for number in numbers if self._in_use[number]]

    def slots(self) -> Iterator[Slot]:
        """Yield every slot that was ever in use."""
        for number, in_use in enumerate(bytes(self._in_use)):
            if in_use:
                yield self._slot(number)

    def expect_retries(self, due_ms: int) -> None:
        """Note, for the keeper, until when jobs that it failed or gave back become due; monotonic milliseconds."""
        self._words[_RETRIES_DUE_MS] = max(self._words[_RETRIES_DUE_MS], due_ms)

    @property
    def retries_due_ms(self) -> int:
        """When all retries that this worker caused are due; monotonic milliseconds, 0 if there are none."""
        return max([self._words[_RETRIES_DUE_MS], *(slot.retries_due_ms for slot in self.slots())])

    @property
    def last_work_ns(self) -> int:
        """When any process last worked, or the last retry becomes due: nobody's look before that counts."""
        return max([self.retries_due_ms * 1_000_000, *(slot.worked_ns for slot in self.slots())])

    @property
    def is_burst_over(self) -> bool:
        """Whether a process has seen that there is nothing left to do for any."""
        return self._words[_BURST_IS_OVER] != 0

    def end_burst(self) -> None:
        """Let all processes know that there is nothing left to do."""
        self._words[_BURST_IS_OVER] = 1

    def why_out_of_contact(self) -> str:
        """Say for how long no process of the worker has heard a server; "" if all is well."""
        return why_out_of_contact([self.contact, *(slot.contact for slot in self.slots())])

"""The claim table: the claims of every job process, in memory shared with the keeper and the master.

Each process writes its own row. So the keeper can renew its claims while it is busy, and recover its jobs after it has
died.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator

from pinlater.worker.claim_table.contact import CONTACT_WORDS, Contact, contact_problem
from pinlater.worker.claim_table.row import ClaimRow
from pinlater.worker.claim_table.snapshot import SOLO_LAYOUT, Layout

_WORDS_BYTES = 64
_RETRIES_DUE_MS, _BURST_IS_OVER, _CONTACT = range(3)


class ClaimTable:
    """The whole table; the master creates it before it forks. Only rows in use take memory.

    Args:
        rows: most job processes at once.
        layout: layout of the rows.

    Attributes:
        layout: layout of the rows.
        contact: the keeper's contact with the servers.
    """

    def __init__(self, rows: int, layout: Layout = SOLO_LAYOUT) -> None:
        self.layout = layout
        header_bytes = -(-(_WORDS_BYTES + rows) // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = memoryview(mmap.mmap(-1, header_bytes + rows * layout.row_bytes))
        self._words = memory[:_WORDS_BYTES].cast("Q")
        self.contact = Contact(self._words[_CONTACT : _CONTACT + CONTACT_WORDS])
        self._in_use = memory[_WORDS_BYTES : _WORDS_BYTES + rows]
        self._areas = memory[header_bytes:]

    def row(self, number: int) -> ClaimRow:
        """Return the row with that number, and mark it as used."""
        self._in_use[number] = 1
        return self._row(number)

    def _row(self, number: int) -> ClaimRow:
        size = self.layout.row_bytes
        return ClaimRow(self._areas[number * size : (number + 1) * size], self.layout)

    def used(self, numbers: Iterable[int]) -> list[int]:
        """Return those of the given row numbers that were ever used."""
        return [number for number in numbers if self._in_use[number]]

    def rows(self) -> Iterator[ClaimRow]:
        """Yield every row that was ever used."""
        for number, in_use in enumerate(bytes(self._in_use)):
            if in_use:
                yield self._row(number)

    def record_retry_due(self, due_ms: int) -> None:
        """Record, for the keeper, when the jobs that it failed or released are due; monotonic milliseconds."""
        self._words[_RETRIES_DUE_MS] = max(self._words[_RETRIES_DUE_MS], due_ms)

    @property
    def retries_due_ms(self) -> int:
        """When all retries that this worker caused are due; monotonic milliseconds, 0 if there are none."""
        return max([self._words[_RETRIES_DUE_MS], *(row.retries_due_ms for row in self.rows())])

    @property
    def last_work_ns(self) -> int:
        """When any process last worked, or when the last retry becomes due: polls before that do not count."""
        return max([self.retries_due_ms * 1_000_000, *(row.last_work_ns for row in self.rows())])

    @property
    def is_burst_over(self) -> bool:
        """Whether a process has found that no process has anything left to do."""
        return self._words[_BURST_IS_OVER] != 0

    def end_burst(self) -> None:
        """Tell all processes that there is nothing left to do."""
        self._words[_BURST_IS_OVER] = 1

    def contact_problem(self) -> str:
        """Return for how long no process has reached a server; "" if the last contact succeeded."""
        return contact_problem([self.contact, *(row.contact for row in self.rows())])

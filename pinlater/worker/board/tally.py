"""Counts what became of jobs, by class, in memory shared with the master.

Each process has a sheet of its own, so nobody waits for a lock. A sheet has a row for each class::

    name       length and text
    endings    one word for each way to end but success, see ``ENDINGS``
    time       nanoseconds of all runs together
    buckets    how many runs took so long, by the power of four of their nanoseconds; successes and others apart

So a success, which is nearly every job, costs two stores: their number is the sum of their buckets.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

ENDINGS = (
    "succeeded",
    "failed",
    "retried",
    "discarded",
    "given_up",
    "timed_out",
    "unreadable",
    "interrupted",
    "slept",
    "rescheduled",
    "crashed",
    "poison",
)
"""How a run can end; their positions are the numbers in a row."""
UNREADABLE = "unreadable"
"""Of a body that fits no class."""
_CODES = {name: code for code, name in enumerate(ENDINGS)}

MOST_CLASSES = 128
"""Of one process; those after it share the last row."""
_ROW_WORDS, _ROW_SHIFT = 128, 7
_TIME, _BUCKETS, _OTHER_BUCKETS, _NUMBERS = 16, 17, 48, 79
_NAME_BYTES = 8 * (_ROW_WORDS - _NUMBERS) - 8
_SHEET_BYTES = 8 * _ROW_WORDS * MOST_CLASSES


def bucket_seconds(bucket: int) -> float:
    """Return the upper bound of a bucket."""
    return float(2 ** (2 * bucket + 1)) / 1e9


@dataclass(slots=True)
class Counts:
    """What is counted of one class.

    Attributes:
        numbers: endings, time and buckets, as in a row.
    """

    numbers: list[int] = field(default_factory=lambda: [0] * _NUMBERS)

    def add(self, numbers: Iterable[int]) -> None:
        """Add those of another row."""
        self.numbers = [mine + theirs for mine, theirs in zip(self.numbers, numbers, strict=True)]

    @property
    def buckets(self) -> list[int]:
        """How many runs took so long."""
        return [sum(both) for both in zip(self._successes, self.numbers[_OTHER_BUCKETS:], strict=True)]

    @property
    def seconds(self) -> float:
        """Time of all runs together."""
        return self.numbers[_TIME] / 1e9

    @property
    def endings(self) -> dict[str, int]:
        """How many runs ended in each way."""
        found = dict(zip(ENDINGS, self.numbers, strict=False))
        found["succeeded"] = sum(self._successes)
        return found

    @property
    def _successes(self) -> list[int]:
        return self.numbers[_BUCKETS:_OTHER_BUCKETS]


class Sheet:
    """The counts of one process; only one writes it at a time.

    Args:
        memory: ``Sheets`` hands it out.
    """

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._words = memory.cast("Q")
        self._rows: dict[str, int] = {}

    def introduce(self, names: Iterable[str]) -> None:
        """Give the first rows to these classes, in this order."""
        for name in names:
            self._row_of(name)

    def note(self, kind: int, nanoseconds: int) -> None:
        """Count a run that succeeded.

        Args:
            kind: position of its class among those introduced.
            nanoseconds: how long it took.
        """
        row = (kind if kind < MOST_CLASSES else MOST_CLASSES - 1) << _ROW_SHIFT
        words = self._words
        words[row + _BUCKETS + (nanoseconds.bit_length() >> 1)] += 1
        words[row + _TIME] += nanoseconds

    def note_other(self, kind: int, ending: str, nanoseconds: int) -> None:
        """Count a run that did not succeed."""
        row = min(kind, MOST_CLASSES - 1) << _ROW_SHIFT
        for place, number in (
            (_CODES[ending], 1),
            (_OTHER_BUCKETS + (nanoseconds.bit_length() >> 1), 1),
            (_TIME, nanoseconds),
        ):
            self._words[row + place] += number

    def note_named(self, name: str, ending: str, nanoseconds: int) -> None:
        """Count a run of a class that was not introduced: the keeper learns of them as they die."""
        self.note_other(self._row_of(name), ending, nanoseconds)

    def _row_of(self, name: str) -> int:
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = min(len(self._rows), MOST_CLASSES - 1)
            text = name.encode()[:_NAME_BYTES]
            at = 8 * (row * _ROW_WORDS + _NUMBERS)
            self._memory[at + 8 : at + 8 + len(text)] = text
            self._words[row * _ROW_WORDS + _NUMBERS] = len(text)
        return row

    def reopen(self) -> None:
        """Learn the rows that a predecessor has left."""
        self._rows = {name: row for row, (name, _) in enumerate(self.rows())}

    def rows(self) -> Iterator[tuple[str, list[int]]]:
        """Yield each class with its numbers."""
        for row in range(MOST_CLASSES):
            start = row * _ROW_WORDS
            size = self._words[start + _NUMBERS]
            if not size:
                return
            at = 8 * (start + _NUMBERS) + 8
            name = bytes(self._memory[at : at + size]).decode(errors="replace")
            yield name, self._words[start : start + _NUMBERS].tolist()

    def clear(self) -> None:
        """Begin anew, for another process."""
        used = sum(1 for _ in self.rows())
        self._memory[: 8 * _ROW_WORDS * used] = bytes(8 * _ROW_WORDS * used)
        self._rows = {}


class Tally:
    """All sheets, and what those of ended processes had; made by the master before it forks.

    Memory is taken only for rows in use.

    Args:
        processes: how many job processes there can be at once.

    Attributes:
        keeper: the keeper's sheet, for runs whose process died.
    """

    def __init__(self, processes: int) -> None:
        self._memory = memoryview(mmap.mmap(-1, (processes + 1) * _SHEET_BYTES))
        self._ended: dict[str, Counts] = {}
        self.keeper = self._sheet(processes)

    def _sheet(self, number: int) -> Sheet:
        return Sheet(self._memory[number * _SHEET_BYTES : (number + 1) * _SHEET_BYTES])

    def sheet(self, number: int) -> Sheet:
        """Return the sheet of a process, by the number of its slot."""
        return self._sheet(number)

    def fold(self, number: int) -> None:
        """Keep what an ended process has counted, so that nothing is counted down; called in the master."""
        sheet = self._sheet(number)
        _add(self._ended, sheet)
        sheet.clear()

    def counts(self, numbers: Iterable[int]) -> dict[str, Counts]:
        """Return all that was counted, by class; called in the master.

        Args:
            numbers: of the slots to be looked at.
        """
        found = {name: Counts(list(counts.numbers)) for name, counts in self._ended.items()}
        for sheet in (self.keeper, *map(self._sheet, numbers)):
            _add(found, sheet)
        return found


def _add(found: dict[str, Counts], sheet: Sheet) -> None:
    for name, numbers in sheet.rows():
        found.setdefault(name, Counts()).add(numbers)

"""Counters of finished jobs by queue and class, in memory shared with the master.

Each process has its own counters, so nobody waits for a lock. They have a row for each class in each queue::

    name       length and text
    endings    one word for each way to end but success, see ``ENDINGS``
    time       total nanoseconds of all runs
    buckets    number of runs by duration, with the bounds of a ``Spread``; successes and others apart

So a success, which is nearly every job, costs two writes: the number of successes is the sum of their buckets. A row
without a class counts events of a queue, see ``EVENTS``.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from pinlater.model.statistics import BOUNDS_MS

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
    "lost",
    "tick_failed",
    "unknown",
    "cancelled",
    "mismatch",
    "no_queue",
)
"""Possible endings of a run; their positions are the words of a row."""
DISCARDED = "discarded"
UNREADABLE = "unreadable"
"""Ending of a job whose body fits no class, once it is given up."""
TICK_FAILED = "tick_failed"
"""Ending of a periodic job whose last attempt at a tick has failed; it continues with the next tick."""
UNKNOWN = "unknown"
"""Ending of a job that was released for a worker that knows its class."""
CANCELLED = "cancelled"
"""Ending of a cancelled job that stopped, or never began."""
MISMATCH = "mismatch"
"""Ending of a job that waits for code that fits its recorded steps."""
NO_QUEUE = "no_queue"
"""Ending of a job that enqueues others in a queue that does not exist, and waits for it to be created."""
_CODES = {name: code for code, name in enumerate(ENDINGS)}

_FAILURES = ("failed", "retried", DISCARDED, "given_up", "timed_out", UNREADABLE, "crashed", "poison", TICK_FAILED)

EVENTS = (SAVED, UNSAVED, RETURNED, UNACKED) = ("saved", "unsaved", "returned", "untold")
"""Events that are counted by queue only: checkpoints that a server saved, and those that none saved; jobs released
before they were started; and ended jobs that no server acknowledged."""
_EVENT_CODES = {name: code for code, name in enumerate(EVENTS)}

CountEvent = Callable[[str, str, int], object]
"""Called with a queue, one of ``EVENTS``, and how many of them to count."""


def ignore_event(_queue: str, _event: str, _number: int) -> None:
    """Ignore an event; a ``CountEvent``."""


Key = tuple[str, str]
"""Queue and class; an empty class stands for events of the queue."""

MOST_ROWS = 128
"""Rows of one process; further queues and classes share the last one."""
_OVERFLOW_KEY: Key = ("(other)", "(other)")
_ROW_WORDS, _ROW_SHIFT = 256, 8
_TIME, _BUCKETS, _OTHER_BUCKETS, _NUMBERS = 18, 19, 75, 131
_BOUNDS_NS = (*(round(bound * 1e6) for bound in BOUNDS_MS), 2**64, 2**64)
_FIRST_BUCKETS = tuple(bisect_left(_BOUNDS_NS, 2**bits // 2) for bits in range(65))
"""First possible bucket of a time, by the bit length of its nanoseconds. At most two bounds lie between times of the
same length."""
_NAME_BYTES = 8 * (_ROW_WORDS - _NUMBERS) - 8
_COUNTERS_BYTES = 8 * _ROW_WORDS * MOST_ROWS


def bucket_seconds(bucket: int) -> float:
    """Return the upper bound of a bucket; there is one more bucket than bounds."""
    return BOUNDS_MS[bucket] / 1000


@dataclass(slots=True)
class RunCounts:
    """Counts of one class in one queue, or events of a queue.

    Attributes:
        numbers: endings, time and buckets, as in a row.
    """

    numbers: list[int] = field(default_factory=lambda: [0] * _NUMBERS)

    def add(self, numbers: Iterable[int]) -> None:
        """Add the numbers of another row."""
        self.numbers = [mine + theirs for mine, theirs in zip(self.numbers, numbers, strict=True)]

    @property
    def buckets(self) -> list[int]:
        """Number of runs by duration."""
        return [sum(both) for both in zip(self._successes, self.numbers[_OTHER_BUCKETS:], strict=True)]

    @property
    def seconds(self) -> float:
        """Total duration of all runs."""
        return self.numbers[_TIME] / 1e9

    @property
    def endings(self) -> dict[str, int]:
        """Number of runs by ending."""
        found = dict(zip(ENDINGS, self.numbers, strict=False))
        found["succeeded"] = sum(self._successes)
        return found

    @property
    def succeeded(self) -> int:
        """Number of attempts that succeeded, including those after which the job was rescheduled."""
        return sum(self._successes) + self.numbers[_CODES["rescheduled"]]

    @property
    def failed(self) -> int:
        """Number of attempts that failed."""
        return sum(self.numbers[_CODES[ending]] for ending in _FAILURES)

    @property
    def events(self) -> dict[str, int]:
        """Number of events by name, in a row of a queue."""
        return dict(zip(EVENTS, self.numbers, strict=False))

    @property
    def _successes(self) -> list[int]:
        return self.numbers[_BUCKETS:_OTHER_BUCKETS]


class ProcessCounters:
    """Counters of one process; only one process writes them at a time.

    Args:
        memory: its part of the memory of ``SharedCounters``.
    """

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._words = memory.cast("Q")
        self._names: list[str] = []
        self._starts: dict[str, dict[int, int]] = {}  # starts of rows, by queue and position of the class
        self._rows: dict[Key, int] = {}

    def register(self, names: Iterable[str]) -> None:
        """Register the class names that positions refer to."""
        self._names = list(names)

    def name_of(self, kind: int) -> str:
        """Return the class name at a position."""
        return self._names[kind]

    def count_success(self, queue: str, kind: int, nanoseconds: int) -> None:
        """Count a successful run.

        Args:
            queue: queue of the job.
            kind: position of its class among the registered names.
            nanoseconds: how long the run took.
        """
        try:
            start = self._starts[queue][kind]
        except KeyError:
            start = self._new_start(queue, kind)
        bucket = _FIRST_BUCKETS[nanoseconds.bit_length()]  # half of what a search costs; every success comes here
        if nanoseconds > _BOUNDS_NS[bucket]:
            bucket += 1
            if nanoseconds > _BOUNDS_NS[bucket]:
                bucket += 1
        words = self._words
        words[start + _BUCKETS + bucket] += 1
        words[start + _TIME] += nanoseconds

    def count_ending(self, queue: str, kind: int, ending: str, nanoseconds: int) -> None:
        """Count a run that did not succeed."""
        self.count_ending_of(queue, self._names[kind], ending, nanoseconds)

    def count_ending_of(self, queue: str, name: str, ending: str, nanoseconds: int) -> None:
        """Count a run by the name of its class, for the keeper and unknown classes."""
        start = self._row_of((queue, name)) << _ROW_SHIFT
        for place, number in (
            (_CODES[ending], 1),
            (_OTHER_BUCKETS + bisect_left(_BOUNDS_NS, nanoseconds), 1),
            (_TIME, nanoseconds),
        ):
            self._words[start + place] += number

    def count_event(self, queue: str, event: str, number: int) -> None:
        """Count an event of a queue; a ``CountEvent``."""
        row = self._row_of((queue, ""))
        if self._is_overflow(row):
            return  # that row is for classes
        self._words[(row << _ROW_SHIFT) + _EVENT_CODES[event]] += number

    def _new_start(self, queue: str, kind: int) -> int:
        start = self._row_of((queue, self._names[kind])) << _ROW_SHIFT
        self._starts.setdefault(queue, {})[kind] = start
        return start

    def _row_of(self, key: Key) -> int:
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = min(len(self._rows), MOST_ROWS - 1)
            text = "\n".join(_OVERFLOW_KEY if self._is_overflow(row) else key).encode()[:_NAME_BYTES]
            at = 8 * (row * _ROW_WORDS + _NUMBERS)
            self._memory[at + 8 : at + 8 + len(text)] = text
            self._words[row * _ROW_WORDS + _NUMBERS] = len(text)
        return row

    @staticmethod
    def _is_overflow(row: int) -> bool:
        return row == MOST_ROWS - 1

    def load_rows(self) -> None:
        """Take over the rows of an earlier process."""
        self._rows = {key: row for row, (key, _) in enumerate(self.rows())}

    def rows(self) -> Iterator[tuple[Key, list[int]]]:
        """Yield each queue and class with its numbers."""
        for row in range(MOST_ROWS):
            start = row * _ROW_WORDS
            size = self._words[start + _NUMBERS]
            if not size:
                return
            at = 8 * (start + _NUMBERS) + 8
            queue, _, name = bytes(self._memory[at : at + size]).decode(errors="replace").partition("\n")
            yield (queue, name), self._words[start : start + _NUMBERS].tolist()

    @property
    def ended_runs(self) -> int:
        """Number of finished runs, whatever their ending."""
        return sum(sum(RunCounts(numbers).endings.values()) for (_, name), numbers in self.rows() if name)

    def clear(self) -> None:
        """Clear the counters for another process."""
        used = sum(1 for _ in self.rows())
        self._memory[: 8 * _ROW_WORDS * used] = bytes(8 * _ROW_WORDS * used)
        self._rows, self._starts = {}, {}


class SharedCounters:
    """Counters of all processes, living and ended; the master creates them before it forks.

    Memory is taken only for rows in use.

    Args:
        processes: how many job processes there can be at once.

    Attributes:
        keeper: the keeper's counters, for runs whose process died.
    """

    def __init__(self, processes: int) -> None:
        self._memory = memoryview(mmap.mmap(-1, (processes + 1) * _COUNTERS_BYTES))
        self._retired: dict[Key, RunCounts] = {}
        self.keeper = self.of_process(processes)

    def of_process(self, number: int) -> ProcessCounters:
        """Return the counters of a process, by the number of its row in the claim table."""
        return ProcessCounters(self._memory[number * _COUNTERS_BYTES : (number + 1) * _COUNTERS_BYTES])

    def retire(self, number: int) -> None:
        """Add the counts of an ended process to the totals, so that they never fall; called in the master."""
        counters = self.of_process(number)
        _add(self._retired, counters)
        counters.clear()

    def counts(self, numbers: Iterable[int]) -> dict[Key, RunCounts]:
        """Return the totals; called in the master.

        Args:
            numbers: rows of the claim table whose processes to include.
        """
        found = {key: RunCounts(list(counts.numbers)) for key, counts in self._retired.items()}
        for counters in (self.keeper, *map(self.of_process, numbers)):
            _add(found, counters)
        return found


def _add(found: dict[Key, RunCounts], counters: ProcessCounters) -> None:
    for key, numbers in counters.rows():
        found.setdefault(key, RunCounts()).add(numbers)

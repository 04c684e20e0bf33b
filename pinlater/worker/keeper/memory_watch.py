"""Watches how the memory of each job process grows from job to job, so that a leak can be told from a warm-up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from pinlater.model.workers import WorkerProcess

_MOST_SAMPLES = 24
_FEWEST_STEPS = 3
"""With fewer steps, growth may be chance, or the warm-up."""

ProcessKey = tuple[int, int | None]
"""Process id and start time: process ids are reused."""


class MemorySample(NamedTuple):
    """Resident bytes of a job process at the time when ``ended`` jobs had ended in it."""

    ended: int
    memory_bytes: int


class MemoryWatch:
    """Adds ``memory_at_start_bytes`` to the processes of a report.

    A process takes most of its memory when it loads what its jobs need: with the first one, or the first few. That
    levels off. A leak goes on, job after job. So of what a process has gained since its first job, only as much counts
    as growth as it would have gained at its present pace; the rest belongs to the start.
    """

    def __init__(self) -> None:
        self._samples: dict[ProcessKey, list[MemorySample]] = {}

    def measure(self, processes: Iterable[WorkerProcess]) -> None:
        """Take samples of the processes in which jobs have ended; forget those that are gone."""
        before, self._samples = self._samples, {}
        for process in processes:
            key = process.pid, process.started_ms
            if process.ended and process.memory_bytes is not None:
                sample = MemorySample(process.ended, process.memory_bytes)
                self._samples[key] = _added(before.get(key, []), sample)
            elif key in before:
                self._samples[key] = before[key]

    def noted(self, processes: Iterable[WorkerProcess]) -> list[WorkerProcess]:
        """Return the processes with their memory at the start; take samples of them."""
        found = list(processes)
        self.measure(found)
        return [self._noted(process) for process in found]

    def _noted(self, process: WorkerProcess) -> WorkerProcess:
        if process.memory_bytes is None:
            return process
        growth = lasting_growth(self._samples.get((process.pid, process.started_ms), []))
        return process._replace(memory_at_start_bytes=process.memory_bytes - growth)


def lasting_growth(samples: Sequence[MemorySample]) -> int:
    """Return the bytes that a process has gained since its first job, as far as its present pace explains them.

    The pace is taken from the later half of its jobs: the median of its steps, so that a few large jobs do not count,
    and no more than their mean, so that memory that is given back at times does not count, either.
    """
    if len(samples) <= _FEWEST_STEPS:
        return 0
    first, last = samples[0], samples[-1]
    middle = (first.ended + last.ended) / 2
    late = [sample for sample in samples if sample.ended >= middle]
    late = late if len(late) > _FEWEST_STEPS else list(samples[-_FEWEST_STEPS - 1 :])
    pace = min(median(_pace(earlier, later) for earlier, later in pairwise(late)), _pace(late[0], late[-1]))
    gained = last.memory_bytes - first.memory_bytes
    return max(min(round(pace * (last.ended - first.ended)), gained), 0)


def _pace(earlier: MemorySample, later: MemorySample) -> float:
    """Return the bytes gained per job."""
    return (later.memory_bytes - earlier.memory_bytes) / (later.ended - earlier.ended)


def _added(samples: list[MemorySample], sample: MemorySample) -> list[MemorySample]:
    """Return samples with one more; if there are too many, only every second, so that they reach back to the first."""
    if samples and samples[-1].ended >= sample.ended:
        return samples
    found = [*samples, sample]
    return [*found[:-1:2], found[-1]] if len(found) > _MOST_SAMPLES else found

"""What the processes of a worker have counted of late."""

from __future__ import annotations

from collections.abc import Iterator

from pinlater.worker.claim_table.counters import Key, ProcessCounters, RunCounts
from pinlater.worker.shared import Shared

_Process = tuple[int, str]
"""Its row of the claim table, and its source, which another process in the row does not share."""
_KEEPER: _Process = -1, ""


class CounterGrowth:
    """Computes what was counted from one call to the next, process by process: one that ends takes nothing back.

    What a process counts between the last call and its end is lost; with very short lives (``--max-jobs 1``), that is
    much.

    Args:
        shared: memory shared by the processes of the worker.
        generation: processes with fewer reloads before them are left out: they run older code.
    """

    def __init__(self, shared: Shared, generation: int = 0) -> None:
        self._shared = shared
        self._generation = generation
        self._last: dict[_Process, dict[Key, list[int]]] | None = None

    def since_last(self) -> dict[Key, RunCounts]:
        """Return what was counted since the last call, by queue and class; at first, nothing.

        What the processes have counted before the first call may be older than the code that they run: the keeper is
        replaced in a reload, their counters are not.
        """
        growth: dict[Key, RunCounts] = {}
        found = {process: dict(counters.rows()) for process, counters in self._counters()}
        last, self._last = self._last, found
        if last is None:
            return growth
        for process, rows in found.items():
            before = last.get(process, {})
            for key, numbers in rows.items():
                old = before.get(key) or [0] * len(numbers)
                risen = (max(new - was, 0) for new, was in zip(numbers, old, strict=True))
                growth.setdefault(key, RunCounts()).add(risen)
        return growth

    def _counters(self) -> Iterator[tuple[_Process, ProcessCounters]]:
        """Yield the counters of each process, and those of the keeper, for runs that died with their process."""
        yield _KEEPER, self._shared.counters.keeper
        for _, number, row in self._shared.rows():
            if row.identity.generation >= self._generation:
                yield (number, row.identity.source), self._shared.counters.of_process(number)

"""The jobs that a search of bodies has looked at."""

from __future__ import annotations

from array import array
from bisect import bisect_right


class WalkedJobs:
    """The jobs that a search has looked at, in its order; stored as arrays of numbers, since there may be many.

    Args:
        is_oldest_first: whether run_after and id are ascending.
    """

    def __init__(self, *, is_oldest_first: bool) -> None:
        self._sign = 1 if is_oldest_first else -1
        self._run_after, self._ids = array("q"), array("q")

    def add(self, run_after_ms: int, local_id: int) -> None:
        """Add the next job."""
        self._run_after.append(run_after_ms)
        self._ids.append(local_id)

    def count_until(self, run_after_ms: int, local_id: int) -> int:
        """Return how many of them come up to a place in the order, including one at this place."""
        return bisect_right(range(len(self)), self._rank(run_after_ms, local_id), key=self._rank_at)

    def _rank_at(self, index: int) -> tuple[int, int]:
        return self._rank(self._run_after[index], self._ids[index])

    def _rank(self, run_after_ms: int, local_id: int) -> tuple[int, int]:
        return self._sign * run_after_ms, self._sign * local_id

    def __len__(self) -> int:
        return len(self._ids)

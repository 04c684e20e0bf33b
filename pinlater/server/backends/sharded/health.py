"""Health of a shard, judged by its latest calls."""

from __future__ import annotations

from collections import deque

WINDOW = 20
"""How many of the latest calls count."""

MAX_FAILURES_IN_A_ROW = 3
"""After this many failures in a row, a shard is unhealthy."""


class Health:
    """The outcomes of the latest calls of a shard.

    It is unhealthy when its last three calls failed, or more than half of the last twenty.

    Attributes:
        is_healthy: whether calls may go to the shard.
    """

    def __init__(self) -> None:
        self._outcomes: deque[bool] = deque(maxlen=WINDOW)
        self._in_a_row = 0
        self._failures = 0
        self.is_healthy = True

    def record(self, *, is_success: bool) -> None:
        """Record the outcome of a call."""
        if is_success and not self._failures:
            return  # no failures to outweigh: the usual case
        if len(self._outcomes) == WINDOW:
            self._failures -= not self._outcomes[0]
        self._outcomes.append(is_success)
        self._failures += not is_success
        self._in_a_row = 0 if is_success else self._in_a_row + 1
        self.is_healthy = self._in_a_row < MAX_FAILURES_IN_A_ROW and self._failures <= WINDOW // 2

    def recover(self) -> None:
        """Start afresh, as the shard answers again."""
        self._outcomes.clear()
        self._in_a_row = self._failures = 0
        self.is_healthy = True

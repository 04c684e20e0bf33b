"""Whether a shard is worth asking: judged by how its latest calls went."""

from __future__ import annotations

from collections import deque

WINDOW = 20
"""Outcomes that are remembered."""

MOST_IN_A_ROW = 3
"""So many failures in a row, and the shard is left alone."""


class Health:
    """A window of outcomes.

    A shard is ill when its last three calls failed, or more than half of the last twenty.
    """

    def __init__(self) -> None:
        self._outcomes: deque[bool] = deque(maxlen=WINDOW)
        self._in_a_row = 0
        self._failures = 0

    @property
    def is_healthy(self) -> bool:
        """Whether calls may go to the shard."""
        return self._in_a_row < MOST_IN_A_ROW and self._failures <= WINDOW // 2

    def note(self, *, is_success: bool) -> None:
        """Take note of how a call went."""
        if is_success and not self._failures:
            return  # nothing to forget: as it is nearly always
        if len(self._outcomes) == WINDOW:
            self._failures -= not self._outcomes[0]
        self._outcomes.append(is_success)
        self._failures += not is_success
        self._in_a_row = 0 if is_success else self._in_a_row + 1

    def recover(self) -> None:
        """Forget what was: the shard answers again."""
        self._outcomes.clear()
        self._in_a_row = self._failures = 0

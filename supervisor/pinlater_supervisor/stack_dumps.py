"""Has children write their stacks to stderr, one after another."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection
from math import inf
from typing import TYPE_CHECKING

from pinlater_supervisor.child_signals import DUMP_SIGNAL

if TYPE_CHECKING:
    from pinlater_supervisor.process import ChildProcess

log = logging.getLogger("pinlater_supervisor")

GAP_SECONDS = 0.05
"""Time for a child to write its stacks before the next one begins; otherwise their lines would be mixed."""


class StackDumps:
    """The children that are still to write their stacks."""

    def __init__(self) -> None:
        self._waiting: deque[ChildProcess] = deque()
        self._next_at = 0.0

    def request(self, processes: Collection[ChildProcess]) -> None:
        """Let each of these children write its stacks; those of an earlier request that have not done so, once."""
        self._waiting = deque(processes)

    def advance(self, processes: Collection[ChildProcess], now: float) -> float:
        """Let the next child write its stacks if it is time; return when the one after it is due, inf for never.

        Args:
            processes: the children that have not been reaped.
            now: time on the monotonic clock.
        """
        while self._waiting and now >= self._next_at:
            process = self._waiting.popleft()
            if process in processes:
                log.info("%s: %s; stacks follow on stderr", process, process.page.status or "no status")
                process.signal(DUMP_SIGNAL)
                self._next_at = now + GAP_SECONDS
        return self._next_at if self._waiting else inf

"""The order and the deadlines in which everything ends."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pinlater_supervisor.watch import kill

if TYPE_CHECKING:
    from pinlater_supervisor.pool_state import Crew
    from pinlater_supervisor.process import Process

log = logging.getLogger("pinlater_supervisor")

WARNING_SECONDS = 2.0
"""How long before its death a child is told to stop now."""
RESERVE_SECONDS = 2.0
"""What each stage has at least after the one before it, to tidy up after children that were killed; of a short drain, a
quarter of it."""


def warning_seconds(drain_seconds: float) -> float:
    return min(WARNING_SECONDS, drain_seconds / 5)


class Drain:
    """One stop of everything, stage by stage in the order of `Pool.stop_order`.

    Attributes:
        exit_code: what the supervisor returns when it is over.
        is_quick: whether children are to drop their work.
    """

    def __init__(
        self, crews: Sequence[Crew], *, exit_code: int, deadline: float, seconds: float, quick_seconds: float
    ) -> None:
        self.exit_code = exit_code
        self.is_quick = False
        self._crews = crews
        self._deadline = deadline
        self._seconds = seconds
        self._quick_seconds = quick_seconds
        self._orders = sorted({crew.pool.stop_order for crew in crews})
        self._is_entered = False

    @property
    def is_over(self) -> bool:
        return not self._orders

    def keeps(self, crew: Crew) -> bool:
        """Whether the crew's turn has not come, so that its dead are still replaced."""
        return bool(self._orders) and crew.pool.stop_order > self._orders[0]

    def advance(self, now: float) -> None:
        """Go on to the next stage when the present one has no children left."""
        while self._orders:
            if not self._is_entered:
                self._enter(now)
            if self._stage():
                return
            self._orders.pop(0)
            self._is_entered = False

    def hurry(self, now: float) -> None:
        """From here on children are told to drop their work and are killed after a short grace."""
        self.is_quick = True
        if not self._is_entered:
            return
        for process in self._stage():
            process.hurry("stop")
            process.kill_by(now + self._quick_seconds, "quick stop")

    def cut_off(self) -> None:
        """Kill those whose turn it is; the later ones, who tidy up after them, keep their short grace."""
        for process in self._stage():
            kill(process, "stop was asked for again")

    def _enter(self, now: float) -> None:
        self._is_entered = True
        reserve = min(RESERVE_SECONDS, self._seconds / 4) * (len(self._orders) - 1)
        for process in self._stage():
            process.ask_to_stop(
                "stop", deadline=self._deadline - reserve, warning_seconds=warning_seconds(self._seconds)
            )
        if self.is_quick:
            self.hurry(now)

    def _stage(self) -> list[Process]:
        order = self._orders[0]
        return [p for crew in self._crews if crew.pool.stop_order == order for p in crew.members.values()]

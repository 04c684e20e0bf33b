"""Stops all pools in their order, within the deadlines."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pinlater_supervisor.watch import kill

if TYPE_CHECKING:
    from pinlater_supervisor.pool_state import PoolState
    from pinlater_supervisor.process import ChildProcess

log = logging.getLogger("pinlater_supervisor")

WARNING_SECONDS = 2.0
"""How long before the kill a child is told to stop now."""
RESERVE_SECONDS = 2.0
"""Part of a drain reserved for each stage after the first, to clean up after killed children, but at most a quarter of
the drain. Such a stage has at least `quick_seconds`."""


def warning_seconds(drain_seconds: float) -> float:
    return min(WARNING_SECONDS, drain_seconds / 5)


class Drain:
    """One stop of all pools, stage by stage in the order of `Pool.stop_order`.

    Attributes:
        exit_code: what the supervisor returns after the stop.
        is_quick: whether children have to drop their work.
    """

    def __init__(
        self, states: Sequence[PoolState], *, exit_code: int, deadline: float, seconds: float, quick_seconds: float
    ) -> None:
        self.exit_code = exit_code
        self.is_quick = False
        self._states = states
        self._deadline = deadline
        self._seconds = seconds
        self._quick_seconds = quick_seconds
        self._orders = sorted({state.pool.stop_order for state in states})
        self._first_order = self._orders[0]
        self._is_stage_started = False

    @property
    def is_over(self) -> bool:
        return not self._orders

    def restarts(self, state: PoolState) -> bool:
        """Whether the pool's stage has not begun, so that its dead children are still replaced."""
        return bool(self._orders) and state.pool.stop_order > self._orders[0]

    def advance(self, now: float) -> None:
        """Enter the next stage when the current one has no children left."""
        while self._orders:
            if not self._is_stage_started:
                self._start_stage(now)
            if self._stage():
                return
            self._orders.pop(0)
            self._is_stage_started = False

    def stop_now(self, now: float) -> None:
        """Tell children to drop their work, and kill them after a short grace period."""
        self.is_quick = True
        if not self._is_stage_started:
            return
        for process in self._stage():
            process.stop_now("stop")
            process.kill_by(now + self._quick_seconds, "quick stop")

    def kill_stage(self) -> None:
        """Kill the children of the current stage; later stages, which clean up after them, keep their grace period."""
        for process in self._stage():
            kill(process, "stop was requested again")

    def _start_stage(self, now: float) -> None:
        self._is_stage_started = True
        deadline = self._deadline - min(RESERVE_SECONDS, self._seconds / 4) * (len(self._orders) - 1)
        if self._orders[0] != self._first_order:  # even if the earlier stages have used up the time
            deadline = max(deadline, now + self._quick_seconds)
        for process in self._stage():
            process.ask_to_stop("stop", deadline=deadline, warning_seconds=warning_seconds(self._seconds))
        if self.is_quick:
            self.stop_now(now)

    def _stage(self) -> list[ChildProcess]:
        order = self._orders[0]
        return [p for state in self._states if state.pool.stop_order == order for p in state.children.values()]

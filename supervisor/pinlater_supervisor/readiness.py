"""Progress of the first start, a reload and the stop, reported to systemd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pinlater_supervisor.notify import Notifier

if TYPE_CHECKING:
    from pinlater_supervisor.pool_state import PoolState


class Readiness:
    """Follows all pools from their first start to the stop.

    Attributes:
        has_started: whether all wanted children have ever been ready at the same time.
    """

    def __init__(self, states: Sequence[PoolState]) -> None:
        self.has_started = False
        self._states = states
        self._is_reloading = False
        self._notifier = Notifier()

    def reloading(self) -> None:
        """Report that a reload has begun."""
        self._is_reloading = True
        self._notifier.reloading()

    def reloaded(self) -> None:
        """Report that the reload is over, failed or not; does nothing if there was none."""
        if self._is_reloading:
            self._is_reloading = False
            self._notifier.ready()

    def stopping(self, seconds: float) -> None:
        """Report that the stop has begun, which may take `seconds`."""
        self._notifier.stopping(seconds)

    def record_start(self) -> None:
        """Record and report whether all wanted children are ready for the first time."""
        if not self.has_started and all(state.ready_count >= state.wanted for state in self._states):
            self.has_started = True
            self._notifier.ready()

    def update(self) -> None:
        """Report the progress of the start or a reload."""
        self._notifier.status(", ".join(state.summary for state in self._states))
        self.record_start()
        if self._is_reloading and all(state.has_reloaded for state in self._states):
            self.reloaded()

    def update_stopping(self) -> None:
        """Report the progress of the stop."""
        left = sum(len(state.children) for state in self._states)
        self._notifier.status(f"stopping, {left} children left")

    def beat(self, now: float) -> float:
        """Feed systemd's watchdog; return when to call again, inf without a watchdog."""
        return self._notifier.beat(now)

    def close(self) -> None:
        """Close the connection to systemd."""
        self._notifier.close()

"""Progress of the first start and of a reload, reported to systemd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pinlater_supervisor.notify import Notifier
    from pinlater_supervisor.pool_state import PoolState


class Readiness:
    """Follows all pools until the stop.

    Attributes:
        has_started: whether all wanted children have ever been ready at the same time.
    """

    def __init__(self, states: Sequence[PoolState], notifier: Notifier) -> None:
        self.has_started = False
        self._states = states
        self._is_reloading = False
        self._notifier = notifier

    def reloading(self) -> None:
        """Report that a reload has begun."""
        self._is_reloading = True
        self._notifier.reloading()

    def reloaded(self) -> None:
        """Report that the reload is over, failed or not; does nothing if there was none."""
        if self._is_reloading:
            self._is_reloading = False
            self._notifier.ready()

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

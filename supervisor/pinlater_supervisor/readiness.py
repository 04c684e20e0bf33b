"""How the crews stand as a whole: whether all have started once, or a reload is under way; and telling systemd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pinlater_supervisor.notify import Notifier

if TYPE_CHECKING:
    from pinlater_supervisor.pool_state import Crew


class Standing:
    """Follows the crews from their first start to the stop.

    Attributes:
        has_started: whether all children that were wanted have been ready at one time.
    """

    def __init__(self, crews: Sequence[Crew]) -> None:
        self.has_started = False
        self._crews = crews
        self._is_reloading = False
        self._notifier = Notifier()

    def reloading(self) -> None:
        """Note that a new generation is wanted."""
        self._is_reloading = True
        self._notifier.reloading()

    def reloaded(self) -> None:
        """Note that a reload is over, though it may have failed; nothing if there was none."""
        if self._is_reloading:
            self._is_reloading = False
            self._notifier.ready()

    def stopping(self, seconds: float) -> None:
        """Note that all is to stop, which may take `seconds`."""
        self._notifier.stopping(seconds)

    def look(self) -> None:
        """See how far the start or a reload has come."""
        self._notifier.status(", ".join(crew.in_words for crew in self._crews))
        if not self.has_started and all(crew.ready_count >= crew.wanted for crew in self._crews):
            self.has_started = True
            self._notifier.ready()
        if self._is_reloading and all(crew.is_renewed for crew in self._crews):
            self.reloaded()

    def look_at_stop(self) -> None:
        """See how far the stop has come."""
        left = sum(len(crew.members) for crew in self._crews)
        self._notifier.status(f"stopping, {left} children left")

    def beat(self, now: float) -> float:
        """Feed systemd's watchdog; when to come again, inf if nobody waits."""
        return self._notifier.beat(now)

    def close(self) -> None:
        """Tell nobody any more."""
        self._notifier.close()

"""The time of a store that several servers share: all of them follow the clocks of the shards."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from pinlater.server.clock import SteadyClock


class StoreClock:
    """A steady clock that shows what the shards' clocks show, as far as those are known.

    What is due and what has expired is judged by one time, however many servers there are and whatever their own
    clocks say. Before a shard has answered for the first time, this machine's clock has to do.

    Args:
        wall: source of epoch seconds of this machine.
    """

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._machine = wall
        self._offset_seconds = 0.0
        self._is_learnt = False
        self._steady = SteadyClock(self._wall)

    def now_ms(self) -> int:
        """Return the present time in epoch milliseconds."""
        return self._steady.now_ms()

    def learn(self, offsets_ms: Sequence[float]) -> None:
        """Take note of how far the shards' clocks are ahead of this machine's; one that is far off changes little."""
        if not offsets_ms:
            return
        self._offset_seconds = statistics.median_low(offsets_ms) / 1000
        if not self._is_learnt:  # nobody has relied on the time before: no need to approach it slowly
            self._is_learnt = True
            self._steady = SteadyClock(self._wall)

    def machine_ms(self) -> float:
        """Return what this machine's clock shows."""
        return self._machine() * 1000

    def _wall(self) -> float:
        return self._machine() + self._offset_seconds

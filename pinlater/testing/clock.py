"""A server's clock that a test can move."""

from __future__ import annotations

from pinlater.server.clock import SteadyClock


class MovableClock:
    """Epoch milliseconds: real time plus what a test has added.

    Attributes:
        ahead_ms: how far this clock is ahead of real time.
    """

    def __init__(self) -> None:
        self.ahead_ms = 0
        self._clock = SteadyClock()

    def now_ms(self) -> int:
        """Return the present time in epoch milliseconds."""
        return self._clock.now_ms() + self.ahead_ms

    def now_seconds(self) -> float:
        """Return the present time in epoch seconds."""
        return self.now_ms() / 1000

    def advance(self, seconds: float) -> None:
        """Move the clock forward by ``seconds``.

        Raises:
            TypeError: ``seconds`` is no number, but for example a ``timedelta``.
            ValueError: ``seconds`` is negative; a server's clock never goes back.
        """
        if not isinstance(seconds, int | float):
            raise TypeError(f"advance({seconds!r}): write a number of seconds, such as 24 * 3600")
        if not seconds >= 0:
            raise ValueError(f"advance({seconds}): a server's clock never goes back")
        self.ahead_ms += round(seconds * 1000)

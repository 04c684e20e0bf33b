"""Estimates the server's time from its replies, so that a wrong local clock schedules no run at the wrong moment."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, time


class ServerClock:
    """Epoch seconds of the server; of this machine until a reply has told the server's time.

    An answer was made between its request and its arrival, and may have lain unread meanwhile. So each one says how far
    the server can be ahead at least and at most; what was believed before holds as far as it is between.

    Args:
        elapsed: seconds that never step.
        wall: epoch seconds of this machine.
    """

    def __init__(self, elapsed: Callable[[], float] = monotonic, wall: Callable[[], float] = time) -> None:
        self._elapsed = elapsed
        self._wall = wall
        self._ahead: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether a reply has told the server's time."""
        return self._ahead is not None

    def sent(self) -> float:
        """Return the send time of a request that is sent now, for ``update``."""
        return self._elapsed()

    def update(self, server_ms: int | None, sent: float) -> None:
        """Update the estimate from a reply.

        Args:
            server_ms: what it says, epoch milliseconds; None of a server that tells no time.
            sent: what ``sent`` returned.
        """
        if server_ms is None:
            return
        least, most = server_ms / 1000 - self._elapsed(), server_ms / 1000 - sent
        self._ahead = least if self._ahead is None else min(max(self._ahead, least), most)

    def now(self) -> float:
        """Return the server's time in epoch seconds."""
        return self._wall() if self._ahead is None else self._elapsed() + self._ahead

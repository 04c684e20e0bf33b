"""Estimates the server's time from its replies, so that a wrong local clock schedules no run at the wrong moment."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, time


class ServerClock:
    """Epoch seconds of the server, or of this machine until a reply has told the server's time.

    A reply was made at some time between its request and now; it may have been unread for a while. So each reply gives
    a lower and an upper bound for how far the server is ahead, and moves the estimate between them.

    Args:
        elapsed: monotonic seconds.
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
            server_ms: server time in the reply, epoch milliseconds; None if the server does not tell it.
            sent: what ``sent`` returned for the request.
        """
        if server_ms is None:
            return
        least, most = server_ms / 1000 - self._elapsed(), server_ms / 1000 - sent
        self._ahead = least if self._ahead is None else min(max(self._ahead, least), most)

    def now(self) -> float:
        """Return the server's time in epoch seconds."""
        return self._wall() if self._ahead is None else self._elapsed() + self._ahead

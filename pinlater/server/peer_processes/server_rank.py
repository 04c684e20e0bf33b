"""Turns of the servers of a store: work that any of them could do is done by one of them at each interval."""

from __future__ import annotations

from typing import NamedTuple

MOST_TURNS = 3
"""However many servers there are, each has its turn within this many intervals: others may have died unnoticed."""


class ServerRank(NamedTuple):
    """The rank of a server among those of its store.

    Attributes:
        number: its position, from 0.
        servers: how many there are.
    """

    number: int = 0
    servers: int = 1

    def seconds_until_turn(self, now_ms: int, interval_seconds: float) -> float:
        """Return the seconds until this server's next turn; all servers must ask with the time of the store."""
        turns = min(self.servers, MOST_TURNS)
        if turns == 1:
            return interval_seconds
        begins = self.number % turns * interval_seconds
        return (begins - now_ms / 1000) % (turns * interval_seconds) or turns * interval_seconds

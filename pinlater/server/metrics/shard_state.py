"""The health of a shard, as the processes of a server see it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class ShardState(NamedTuple):
    """The state of a shard, as seen by one process or by several combined.

    Attributes:
        name: as in descriptors.
        place: its address for display, without a password.
        since_ms: since when it is healthy or unhealthy, epoch milliseconds.
        is_dequeue_only: whether it gets no new jobs.
        error: the error of the call that made it unhealthy; empty while it is healthy.
        connections: open connections to its server, which several shards may share; None if it uses none.
        processes: number of processes that use it.
        unhealthy_in: number of processes that avoid it because it did not answer.
    """

    name: str
    place: str
    since_ms: int
    is_dequeue_only: bool = False
    error: str = ""
    connections: int | None = None
    processes: int = 1
    unhealthy_in: int = 0

    def combine(self, other: ShardState) -> ShardState:
        """Combine two views of the same shard: it is unhealthy since the earlier of them began to see it so."""
        if bool(self.unhealthy_in) == bool(other.unhealthy_in):
            since_ms = min(self.since_ms, other.since_ms) if self.unhealthy_in else max(self.since_ms, other.since_ms)
        else:
            since_ms = self.since_ms if self.unhealthy_in else other.since_ms
        known = [count for count in (self.connections, other.connections) if count is not None]
        return self._replace(
            since_ms=since_ms,
            is_dequeue_only=self.is_dequeue_only or other.is_dequeue_only,
            error=self.error or other.error,
            connections=sum(known) if known else None,
            processes=self.processes + other.processes,
            unhealthy_in=self.unhealthy_in + other.unhealthy_in,
        )


def combine(states: Iterable[ShardState]) -> list[ShardState]:
    """Combine the states of each shard, sorted by name; numbers in names count as numbers."""
    found: dict[str, ShardState] = {}
    for state in states:
        known = found.get(state.name)
        found[state.name] = state if known is None else known.combine(state)
    return sorted(found.values(), key=lambda state: (len(state.name), state.name))

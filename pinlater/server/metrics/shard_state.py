"""How a shard is, as the processes of a server see it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class ShardState(NamedTuple):
    """A shard at one moment, seen by one process or by several taken together.

    Attributes:
        name: as in descriptors.
        place: where it is, for people; no password is in it.
        since_ms: how long it has been so, epoch milliseconds: ill since then, or well since then.
        is_dequeue_only: takes no new jobs.
        error: what the call said that made it ill; empty while it is well.
        connections: open connections to its server, which several shards may share; None where there are none.
        processes: how many processes see it.
        ill_in: in how many of them it is left alone, because it did not answer.
    """

    name: str
    place: str
    since_ms: int
    is_dequeue_only: bool = False
    error: str = ""
    connections: int | None = None
    processes: int = 1
    ill_in: int = 0

    def joined(self, other: ShardState) -> ShardState:
        """Return what two views of the same shard come to: it is ill since the first of them says so."""
        if bool(self.ill_in) == bool(other.ill_in):
            since_ms = min(self.since_ms, other.since_ms) if self.ill_in else max(self.since_ms, other.since_ms)
        else:
            since_ms = self.since_ms if self.ill_in else other.since_ms
        known = [count for count in (self.connections, other.connections) if count is not None]
        return self._replace(
            since_ms=since_ms,
            is_dequeue_only=self.is_dequeue_only or other.is_dequeue_only,
            error=self.error or other.error,
            connections=sum(known) if known else None,
            processes=self.processes + other.processes,
            ill_in=self.ill_in + other.ill_in,
        )


def joined(states: Iterable[ShardState]) -> list[ShardState]:
    """Return one state for each shard, by name; numbers in names count as numbers."""
    found: dict[str, ShardState] = {}
    for state in states:
        known = found.get(state.name)
        found[state.name] = state if known is None else known.joined(state)
    return sorted(found.values(), key=lambda state: (len(state.name), state.name))

"""A poll of all queues, one query a shard, which costs shards little that answer the monitor's question with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, cast

from pinlater.server.backends.poll_of_all import PollOfAll
from pinlater.server.backends.sharded.fan_out import PATIENCE_SECONDS, ask_all
from pinlater.server.backends.sharded.shard_group import ShardGroup
from pinlater.server.clock import elapsed_seconds


class ShardPoll(NamedTuple):
    """What a poll of one shard has found.

    Attributes:
        asked_at: when it began, in ``elapsed_seconds``.
        first_due_ms: when the first job of a queue fell due, or does, of those queues where that is soon.
    """

    asked_at: float
    first_due_ms: Mapping[str, int]


class PolledShard(Protocol):
    """A shard that tells of all queues at once."""

    async def poll_all(self, within_ms: int) -> ShardPoll:
        """Return the queues whose first job is due, or falls due within that time."""


async def poll_all(group: ShardGroup, within_ms: int) -> PollOfAll:
    """Return the queues whose first job is due, or falls due within that time, on any of the shards.

    Raises:
        NoHealthyShards: no shard answered.
        ServiceError: what a shard refused, if no other has answered.
    """
    handles, asked_at = group.healthy(), elapsed_seconds()
    answers = await ask_all(
        handles,
        lambda shard: cast("PolledShard", shard).poll_all(within_ms),
        patience=PATIENCE_SECONDS,
        refusals=[],
    )
    first: dict[str, int] = {}
    for _, poll in answers:
        asked_at = min(asked_at, poll.asked_at)
        for queue, due_ms in poll.first_due_ms.items():
            first[queue] = min(due_ms, first.get(queue, due_ms))
    shards = frozenset(handle.name for handle, _ in answers)
    return PollOfAll(asked_at, first, shards, is_whole=len(answers) == len(handles))

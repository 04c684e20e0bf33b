"""A poll of all queues with one query per shard; it costs little where that query also finds the monitor's work."""

from __future__ import annotations

from collections.abc import Mapping
from operator import methodcaller
from typing import NamedTuple

from pinlater.server.backends.poll_of_all import PollOfAll
from pinlater.server.backends.sharded.fan_out import PATIENCE_SECONDS, ask_all
from pinlater.server.backends.sharded.shard_group import ShardGroup
from pinlater.server.backends.sharded.shard_handle import ShardHandle
from pinlater.server.clock import elapsed_seconds


class ShardPoll(NamedTuple):
    """The result of polling one shard.

    Attributes:
        asked_at: when the poll began, in ``elapsed_seconds``.
        first_due_ms: by queue, when its first job fell due or will; only queues where that is soon.
    """

    asked_at: float
    first_due_ms: Mapping[str, int]


async def poll_all(group: ShardGroup, within_ms: int) -> PollOfAll:
    """Return the queues whose first job is due, or falls due within ``within_ms``, on any shard.

    Raises:
        NoHealthyShards: no shard answered.
        ServiceError: a shard refused, and no other has answered.
    """
    handles, asked_at = group.healthy(), elapsed_seconds()
    poll_shard = methodcaller("poll_all", within_ms)  # a verb of the shards of MySQL alone
    answers: list[tuple[ShardHandle, ShardPoll]] = await ask_all(
        handles, poll_shard, patience=PATIENCE_SECONDS, refusals=[]
    )
    first: dict[str, int] = {}
    for _, poll in answers:
        asked_at = min(asked_at, poll.asked_at)
        for queue, due_ms in poll.first_due_ms.items():
            first[queue] = min(due_ms, first.get(queue, due_ms))
    shards = frozenset(handle.name for handle, _ in answers)
    return PollOfAll(asked_at, first, shards, is_whole=len(answers) == len(handles))

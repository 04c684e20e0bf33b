"""Limits of queues over several shards.

Settings are stored on every shard, running jobs are counted over all shards, and a rate has token buckets on two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pinlater.errors import NoHealthyShards, QueueNotFound, ShardConnectionFailed
from pinlater.model.queues import QueueChange
from pinlater.server.backends.sharded.fan_out import ask_each, ask_in_turn
from pinlater.server.backends.sharded.rendezvous import rank
from pinlater.server.backends.sharded.shard_group import ShardGroup
from pinlater.server.backends.sharded.shard_handle import ShardHandle
from pinlater.server.backends.token_bucket import Tokens


async def change_everywhere(group: ShardGroup, queue: str, change: QueueChange) -> None:
    """Change the settings on every shard that has the queue.

    Raises:
        QueueNotFound: no shard has it.
        ShardConnectionFailed: not every shard answered; the change has to be repeated.
        ServiceError: a shard refused.
    """

    async def change_at(handle: ShardHandle) -> None:
        try:
            await handle.ask(lambda shard: shard.change_queue_settings(queue, change))
        except ShardConnectionFailed as error:
            raise ShardConnectionFailed(
                f"shard {handle.name} does not answer and keeps the old settings of queue {queue}; "
                "change them again when it is back"
            ) from error

    _, error = await ask_each(group.registry, change_at)
    if error is not None:
        raise error


async def acquire_tokens(handles: Sequence[ShardHandle], queue: str, rate: float, wanted: int) -> Tokens:
    """Acquire tokens of a queue from both of the first two shards that answer; all servers ask in the same order.

    A server that cannot reach one of the two still shares the other bucket with the other servers. So together they
    keep to the rate even while they disagree about a shard. The second bucket is asked for no more than the first one
    gave: otherwise one server would use up tokens there that another one is about to ask for, and the queue would get
    less than its rate.

    Raises:
        QueueNotFound: all shards that answered lack the queue.
        NoHealthyShards: no shard answered.
    """
    in_order = iter(sorted(handles, key=lambda handle: rank(handle.name, queue)))
    tokens = await _acquire_from_next(in_order, queue, rate, wanted)
    if not tokens.taken:
        return tokens
    try:
        common = await _acquire_from_next(in_order, queue, rate, tokens.taken)
    except (NoHealthyShards, QueueNotFound):  # there is only one
        return tokens
    return common if common.taken < tokens.taken else tokens


async def _acquire_from_next(handles: Iterator[ShardHandle], queue: str, rate: float, wanted: int) -> Tokens:
    """Acquire tokens from the next shard that answers."""
    found: list[Tokens] = []

    def is_enough(tokens: Tokens) -> bool:
        found.append(tokens)
        return True

    await ask_in_turn(handles, lambda shard: shard.acquire_tokens(queue, rate, wanted), is_enough)
    return found[0]


@dataclass(slots=True)
class RunningLimit:
    """A limit of running jobs over all shards: how many more jobs of a queue each shard may hand out.

    With a single shard nothing is counted here, since the shard applies the limit itself.

    Attributes:
        max_running: most running jobs over all shards; None: no limit.
        running: how many jobs run, by shard.
    """

    max_running: int | None
    running: Counter[str] = field(default_factory=Counter)

    @classmethod
    async def count(cls, handles: Iterable[ShardHandle], queue: str, max_running: int) -> RunningLimit:
        """Count the running jobs of a queue on all shards, unhealthy ones included.

        Raises:
            QueueNotFound: none of the shards has the queue.
            ShardConnectionFailed: a shard does not answer.
        """
        running, error = await ask_each(handles, lambda handle: handle.ask(lambda shard: shard.count_running(queue)))
        if error is not None:
            raise error
        return cls(max_running, Counter(running))

    def at(self, shard: str) -> int | None:
        """Return the limit for one shard, which counts its own running jobs itself."""
        if self.max_running is None:
            return None
        return max(self.max_running - self.running.total() + self.running[shard], 0)

    def add(self, shard: str, count: int) -> None:
        """Add jobs that a shard has handed out."""
        self.running[shard] += count

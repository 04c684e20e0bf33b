"""The shards of a store, and calls for a queue that a shard may not have yet."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from pinlater.errors import QueueNotFound, ShardConnectionFailed
from pinlater.model.queues import QueueChange, QueueSettings
from pinlater.server.backends.sharded import merges
from pinlater.server.backends.sharded.active_shards import ActiveShards
from pinlater.server.backends.sharded.due_priorities import DuePriorityMap
from pinlater.server.backends.sharded.fan_out import Call, ask_all
from pinlater.server.backends.sharded.message_relay import MessageRelay
from pinlater.server.backends.sharded.shard import Shard, ShardSpec
from pinlater.server.backends.sharded.shard_handle import OnCall, ShardHandle
from pinlater.server.backends.sharded.shard_registry import ShardRegistry

_T = TypeVar("_T")

log = logging.getLogger(__name__)


class ShardGroup:
    """What all verbs of a sharded store share.

    Attributes:
        registry: the shards.
        active_shards: which of them the new jobs of a queue go to.
        due_priorities: which priorities of a queue have due jobs on which shard.
        relay: delivers messages from one shard to another.

    Args:
        make: makes a shard, which must not connect before its first call.
        due_priorities: an empty map.
        on_call: called after each call to a shard.
    """

    def __init__(self, make: Callable[[ShardSpec], Shard], due_priorities: DuePriorityMap, on_call: OnCall) -> None:
        self.registry = ShardRegistry(lambda spec: self._with_relay(make(spec)), on_call)
        self.active_shards = ActiveShards(self.registry)
        self.relay = MessageRelay(self.registry)
        self.due_priorities = due_priorities
        self._deleting: Counter[str] = Counter()

    def _with_relay(self, shard: Shard) -> Shard:
        shard.on_outgoing = partial(self.relay.start, shard.name)
        return shard

    def healthy(self) -> list[ShardHandle]:
        """Return the healthy shards in random order."""
        return self.registry.healthy()

    async def ask_owner(self, handle: ShardHandle, queue: str, call: Call[_T]) -> _T:
        """Call a shard about a queue; if only other shards have the queue, create it there first."""
        try:
            return await handle.ask(call)
        except QueueNotFound:
            settings = await self._settings_elsewhere(queue, handle)
            if settings is None:
                raise
        await handle.ask(lambda shard: _create_queue(shard, queue, settings))
        log.info("shard %s did not have queue %s yet", handle.name, queue)
        return await handle.ask(call)

    async def _settings_elsewhere(self, queue: str, handle: ShardHandle) -> QueueSettings | None:
        """Return the settings of a queue that this shard lacks, as it is new or missed the queue's creation.

        None means that the other shards do not have the queue either.
        """
        others = [other for other in self.healthy() if other is not handle]
        if not others or self._deleting[queue]:
            return None
        answers = await ask_all(others, lambda shard: shard.settings_of_queue(queue))
        return None if self._deleting[queue] else _merged(queue, answers)

    async def create_queue(self, queue: str) -> None:
        """Create the queue on every shard that takes it; the others get it with their first job of it."""
        answers = await ask_all(self.registry, lambda shard: shard.settings_of_queue(queue))
        settings = _merged(queue, answers) or QueueSettings()
        lacking = {handle.name for handle, known in answers if known is None}

        def create(shard: Shard) -> Awaitable[None]:
            return _create_queue(shard, queue, settings if shard.name in lacking else QueueSettings())

        await ask_all([handle for handle, _ in answers], create)

    async def delete_queue(self, queue: str) -> None:
        """Delete the queue from every shard.

        Raises:
            ShardConnectionFailed: not every shard answered; the deletion has to be repeated.
        """
        self._deleting[queue] += 1
        self.due_priorities.forget(queue)
        try:
            handles = list(self.registry)
            deleted = await ask_all(handles, lambda shard: shard.delete_queue(queue))
        finally:
            self._deleting -= Counter([queue])
        left = sorted({handle.name for handle in handles} - {handle.name for handle, _ in deleted})
        if left:
            raise ShardConnectionFailed(
                f"queue {queue} is still on shard {', '.join(left)}, which does not answer; delete it again later"
            )

    async def close(self) -> None:
        """Close all shards; messages that are not delivered stay on them."""
        await self.relay.close()
        await self.registry.close()


def _merged(queue: str, answers: Sequence[tuple[ShardHandle, QueueSettings | None]]) -> QueueSettings | None:
    """Return the settings of a queue, given what each shard knows of it; None: no shard has it."""
    return merges.settings({queue: known} for _, known in answers if known is not None).get(queue)


async def _create_queue(shard: Shard, queue: str, settings: QueueSettings) -> None:
    """Create a queue with the settings that it has on other shards, which may be removed before they change again."""
    await shard.create_queue(queue)
    if settings != QueueSettings():
        change = QueueChange._make(getattr(settings, name) for name in QueueChange._fields)
        await shard.change_queue_settings(queue, change)

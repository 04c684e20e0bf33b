"""What a server needs of a sharded store beside the verbs: state of the shards, pending work, which queues use them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from pinlater.errors import ServiceError
from pinlater.model.queues import QueueSettings
from pinlater.server.backends.records import StoreSize
from pinlater.server.backends.sharded.fan_out import ask_all
from pinlater.server.backends.sharded.queue_sizer import QueueSizer
from pinlater.server.backends.sharded.settings_poll import SettingsPoll
from pinlater.server.backends.sharded.shard_group import ShardGroup
from pinlater.server.metrics.shard_state import ShardState


class StoreOverview:
    """Shows the state of a group of shards, has messages between them delivered, and tells which queues use which.

    ``ServerStore`` says what each verb does.

    Attributes:
        group: the shards.
        settings_poll: finds changes of queue settings.
        sizer: decides how many shards a queue uses that follows its load.
    """

    group: ShardGroup
    settings_poll: SettingsPoll
    sizer: QueueSizer

    @property
    def waiting(self) -> int:
        return sum(handle.shard.waiting for handle in self.group.registry)

    async def relay_messages(self) -> None:
        await self.group.relay.start_all()

    def apply_settings(self, settings: Mapping[str, QueueSettings]) -> None:
        self.group.due_priorities.keep_only(settings)
        self.settings_poll.applied(settings)
        self.group.active_shards.update(settings)
        self.sizer.apply_settings(settings)

    def active_shards(self, queue: str) -> Sequence[str]:
        return self.group.active_shards.names(queue)

    async def adjust_shards(self, is_limited: Callable[[str], bool]) -> None:
        await self.sizer.adjust(is_limited)

    @property
    def shards(self) -> int:
        return len(self.group.registry)

    @property
    def unhealthy_shards(self) -> int:
        return sum(not handle.is_healthy for handle in self.group.registry)

    @property
    def fault(self) -> str | None:
        if not self.shards or self.unhealthy_shards < self.shards:
            return None
        reason = next((state.error for state in self.shard_states() if state.error), "")
        return f"no shard of the store answers: {reason}".removesuffix(": ")

    def shard_states(self) -> list[ShardState]:
        return [handle.state for handle in self.group.registry]

    async def sizes(self) -> dict[str, StoreSize]:
        answers = await ask_all(self.group.healthy(), lambda shard: shard.size(), refusals=[])
        return {handle.name: size for handle, size in answers}

    async def ping_shards(self) -> dict[str, str]:
        handles = list(self.group.registry)
        results = await asyncio.gather(*(handle.shard.ping() for handle in handles), return_exceptions=True)
        failed: dict[str, str] = {}
        for handle, result in zip(handles, results, strict=True):
            if isinstance(result, ServiceError):
                failed[handle.name] = str(result)
            elif isinstance(result, BaseException):
                raise result
        return failed

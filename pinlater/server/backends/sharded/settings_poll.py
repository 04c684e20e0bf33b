"""Poll the queue settings of all shards at the price of one: changes are made on all, so any shard shows them."""

from __future__ import annotations

from collections.abc import Mapping

from pinlater.errors import ShardConnectionFailed
from pinlater.model.queues import QueueSettings
from pinlater.server.backends.sharded import merges
from pinlater.server.backends.sharded.fan_out import ask_all
from pinlater.server.backends.sharded.shard_group import ShardGroup
from pinlater.server.backends.sharded.shard_handle import ShardHandle

AllSettings = dict[str, QueueSettings]


class SettingsPoll:
    """Asks one shard per poll, in turn, and all of them once an answer differs from that shard's last one.

    Args:
        group: the shards.
    """

    def __init__(self, group: ShardGroup) -> None:
        self._group = group
        self._known: dict[ShardHandle, AllSettings] = {}
        self._found: AllSettings | None = None
        self._next = 0

    async def changed(self) -> AllSettings | None:
        """Return the settings of all queues if they may differ from those applied last; else None.

        Raises:
            NoHealthyShards: no shard answers.
        """
        handles = [handle for handle in self._group.registry if handle.is_healthy]
        if not handles or any(handle not in self._known for handle in handles):
            return await self._read_all()
        self._next += 1
        asked = handles[self._next % len(handles)]
        try:
            answer = await asked.ask(lambda shard: shard.queue_settings())
        except ShardConnectionFailed:
            return await self._read_all()
        return None if answer == self._known[asked] else await self._read_all()

    def applied(self, settings: Mapping[str, QueueSettings]) -> None:
        """Record which settings are applied now; unless they were found here, the next poll asks all shards.

        Otherwise, a change that this server made and applied, and that another one undid before the next poll, would go
        unnoticed, since the shards answer as before.
        """
        if settings is not self._found:
            self._known.clear()

    async def _read_all(self) -> AllSettings:
        self._known.clear()  # shards that do not answer now are read again once they do
        self._known.update(await ask_all(self._group.healthy(), lambda shard: shard.queue_settings()))
        self._found = merges.settings(self._known.values())
        return self._found

"""The verbs of a shard about messages to jobs and about children of jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import Message, ReceivedMessage
from pinlater.server.backends.records import MAX_ANSWER_BYTES
from pinlater.server.backends.redis import messages
from pinlater.server.backends.redis.script_calls import ScriptRunner
from pinlater.server.backends.sharded import OutgoingMessage


class RedisMessages:
    """The part of a shard that stores, reads and relays messages."""

    _scripts: ScriptRunner
    _slow_scripts: ScriptRunner
    on_outgoing: Callable[[Collection[str]], None]

    async def send_message(self, job: JobDescriptor, message: Message) -> bool:
        return await messages.send(self._scripts, job, message)

    async def read_messages(
        self, job: JobDescriptor, name: str, after: int, limit: int, max_bytes: int = MAX_ANSWER_BYTES
    ) -> list[ReceivedMessage]:
        return await messages.read(self._slow_scripts, job, name, after=after, limit=limit, max_bytes=max_bytes)

    async def message_ids(self, jobs: Sequence[JobDescriptor], name: str) -> set[str]:
        return await messages.message_ids(self._slow_scripts, jobs, name)

    async def children_to_cancel(self, parents: Sequence[JobDescriptor], limit: int) -> list[JobDescriptor]:
        return await messages.children_to_cancel(self._slow_scripts, parents, limit)

    async def outgoing_shards(self) -> set[str]:
        return await messages.outgoing_shards(self._slow_scripts)

    async def outgoing_messages(self, shard: str, left_for_ms: int | None = None) -> list[OutgoingMessage]:
        return await messages.read_outgoing(self._slow_scripts, shard, left_for_ms)

    async def deliver_messages(self, messages_to_jobs: Sequence[OutgoingMessage]) -> None:
        await messages.deliver(self._scripts, messages_to_jobs)

    async def forget_outgoing(self, shard: str, delivered: Sequence[OutgoingMessage]) -> None:
        await messages.forget_outgoing(self._slow_scripts, shard, delivered)

    def _notify_outgoing(self, shards: Collection[str]) -> None:
        self.on_outgoing(shards)

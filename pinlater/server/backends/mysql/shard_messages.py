"""The verbs of a shard for messages to jobs, and for their children."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import Message, ReceivedMessage
from pinlater.server.backends.mysql import outgoing, reads
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.group_commit import GroupCommit
from pinlater.server.backends.mysql.maintenance_probe import MaintenanceProbe
from pinlater.server.backends.mysql.messages import Incoming, MysqlMessageCall, read_messages
from pinlater.server.backends.mysql.queues import MysqlQueues
from pinlater.server.backends.records import MAX_ANSWER_BYTES
from pinlater.server.backends.sharded import OutgoingMessage


class MysqlMessages:
    """The part of a shard that handles messages."""

    _database: Database
    _queues: MysqlQueues
    _messages: GroupCommit[MysqlMessageCall, list[bool]]
    _probe: MaintenanceProbe

    @property
    def on_outgoing(self) -> Callable[[Collection[str]], None]:
        return self._database.on_outgoing

    @on_outgoing.setter
    def on_outgoing(self, call: Callable[[Collection[str]], None]) -> None:
        self._database.on_outgoing = call

    async def send_message(self, job: JobDescriptor, message: Message) -> bool:
        queues = await self._queues.find([job.queue])
        return job.queue in queues and all(await self._store([Incoming(job, queues[job.queue].id, message)]))

    async def deliver_messages(self, messages: Sequence[OutgoingMessage]) -> None:
        await self._store([Incoming(job, None, message) for _, job, message in messages])

    async def _store(self, incoming: Sequence[Incoming]) -> list[bool]:
        call = MysqlMessageCall(incoming)
        return await self._messages.submit(call, call.weight)

    async def read_messages(
        self, job: JobDescriptor, name: str, after: int, limit: int, max_bytes: int = MAX_ANSWER_BYTES
    ) -> list[ReceivedMessage]:
        at = (await self._queues.find([job.queue])).get(job.queue)
        if at is None:
            return []
        return await read_messages(self._database, at, job, name, after, limit=limit, max_bytes=max_bytes)

    async def message_ids(self, jobs: Sequence[JobDescriptor], name: str) -> set[str]:
        return await reads.message_ids(self._database, jobs, name)

    async def children_to_cancel(self, parents: Sequence[JobDescriptor], limit: int) -> list[JobDescriptor]:
        return await reads.children_to_cancel(self._database, parents, limit)

    async def outgoing_shards(self) -> set[str]:
        return await outgoing.shards(self._database) if (await self._probe.find()).outgoing is not None else set()

    async def outgoing_messages(self, shard: str, left_for_ms: int | None = None) -> list[OutgoingMessage]:
        return await outgoing.read(self._database, shard, left_for_ms)

    async def forget_outgoing(self, shard: str, messages: Sequence[OutgoingMessage]) -> None:  # noqa: ARG002
        await outgoing.forget(self._database, messages)

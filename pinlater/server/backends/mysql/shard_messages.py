"""The verbs of a shard for messages to jobs, also to those of other shards, and for their children."""

from __future__ import annotations

from collections.abc import Sequence

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import Message, ReceivedMessage
from pinlater.server.backends.answers import end_of_answer
from pinlater.server.backends.batches import STEP_JOBS
from pinlater.server.backends.mysql import children
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.group_commit import GroupCommit
from pinlater.server.backends.mysql.maintenance_probe import MaintenanceProbe
from pinlater.server.backends.mysql.messages import Incoming
from pinlater.server.backends.mysql.queries import Value
from pinlater.server.backends.mysql.queues import MysqlQueues
from pinlater.server.backends.records import MAX_ANSWER_BYTES
from pinlater.server.backends.sharded import OutgoingMessage

_PAGE_MESSAGES, _PAGE_BYTES = 500, 4 * 1024 * 1024
"""Most messages for another shard that are read at once."""


class MysqlMessages:
    """The part of a shard that handles messages."""

    _database: Database
    _probe: MaintenanceProbe
    _queues: MysqlQueues
    _messages: GroupCommit[Sequence[Incoming], list[bool]]

    async def send_message(self, job: JobDescriptor, message: Message) -> bool:
        queues = await self._queues.find([job.queue])
        return job.queue in queues and all(await self._store([Incoming(job, queues[job.queue].id, message)]))

    async def deliver_messages(self, messages: Sequence[OutgoingMessage]) -> None:
        await self._store([Incoming(job, None, message) for _, job, message in messages])

    async def _store(self, incoming: Sequence[Incoming]) -> list[bool]:
        return await self._messages.submit(incoming, sum(len(one.message.payload) + 500 for one in incoming))

    async def read_messages(
        self, job: JobDescriptor, name: str, after: int, limit: int, max_bytes: int = MAX_ANSWER_BYTES
    ) -> list[ReceivedMessage]:
        at = (await self._queues.find([job.queue])).get(job.queue)
        if at is None:
            return []
        bind = self._database.queries.bind
        values: dict[str, Value] = {"job": job.local_id, "name": name.encode(), "after": after}

        async def read(connection: MysqlConnection) -> list[ReceivedMessage]:
            address, sizes = await connection.run(
                bind("address_of_job", id=job.local_id), bind("message_sizes", limit=limit, **values)
            )
            if (job.priority, at.id) not in address.rows or not sizes.rows:
                return []
            end, _ = end_of_answer([size for _, size in sizes.rows], 0, limit, max_bytes)
            if not end:
                return []
            [found] = await connection.run(bind("read_messages", last=sizes.rows[end - 1][0], **values))
            return [ReceivedMessage(number, message_id.decode(), *rest) for number, message_id, *rest in found.rows]

        return await self._database.read(read)

    async def message_ids(self, jobs: Sequence[JobDescriptor], name: str) -> set[str]:
        ids, found = sorted({job.local_id for job in jobs}), set[str]()
        for start in range(0, len(ids), STEP_JOBS):
            query = self._database.queries.bind("message_ids", ids=ids[start : start + STEP_JOBS], name=name.encode())
            found.update(own.decode() for (own,) in await self._database.rows(query))
        return found

    async def children_to_cancel(self, parents: Sequence[JobDescriptor], limit: int) -> list[JobDescriptor]:
        database = self._database
        ids = sorted({children.parent_number(parent, database.shard) for parent in parents})
        found: list[JobDescriptor] = []
        for start in range(0, len(ids), STEP_JOBS):
            some = ids[start : start + STEP_JOBS]
            query = database.queries.bind("children_to_cancel", parents=some, limit=limit - len(found))
            rows = await database.rows(query) if len(found) < limit else []
            found += [JobDescriptor(name, database.shard, priority, local_id) for name, priority, local_id in rows]
        return found

    async def outgoing_shards(self) -> set[str]:
        if (await self._probe.find()).outgoing is None:
            return set()
        return {
            shard.decode() for (shard,) in await self._database.rows(self._database.queries.bind("outgoing_shards"))
        }

    async def outgoing_messages(self, shard: str, left_for_ms: int | None = None) -> list[OutgoingMessage]:
        bind, name = self._database.queries.bind, shard.encode()
        if left_for_ms is None:
            find = bind("outgoing_sizes", shard=name, limit=_PAGE_MESSAGES, origin=children.ORIGIN)
        else:
            before = self._database.now_ms() - left_for_ms
            find = bind("outgoing_left", shard=name, limit=_PAGE_MESSAGES, before=before)

        async def read_page(connection: MysqlConnection) -> list[OutgoingMessage]:
            [sizes] = await connection.run(find)
            end, _ = end_of_answer([size for _, size in sizes.rows], 0, _PAGE_MESSAGES, _PAGE_BYTES)
            if not end:
                return []
            [found] = await connection.run(bind("outgoing", ids=[number for number, _ in sizes.rows[:end]]))
            return [
                OutgoingMessage(number, JobDescriptor.parse(job.decode()), Message(name.decode(), own.decode(), *rest))
                for number, job, name, own, *rest in found.rows
            ]

        return await self._database.read(read_page)

    async def forget_outgoing(self, shard: str, messages: Sequence[OutgoingMessage]) -> None:  # noqa: ARG002
        ids = sorted(int(message.number) for message in messages)
        await self._database.execute(self._database.queries.bind("delete_outgoing", ids=ids))

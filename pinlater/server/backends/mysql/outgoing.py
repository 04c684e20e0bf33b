"""Outgoing messages, to jobs on other shards: they stay on the shard they come from until they are delivered."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import Message
from pinlater.server.backends.answers import end_of_answer
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.maintenance_probe import MaintenanceProbe
from pinlater.server.backends.mysql.transaction import MysqlTransaction
from pinlater.server.backends.sharded import OutgoingMessage

_PAGE_MESSAGES, _PAGE_BYTES = 500, 4 * 1024 * 1024

_ORIGIN = secrets.randbits(62)
"""Identifies this process."""


def leave_ends(transaction: MysqlTransaction, parent: JobDescriptor, ids: Sequence[int]) -> None:
    """Leave messages about the ends of jobs for a parent on another shard; the next statements store them."""
    transaction.outgoing.add(parent.shard)
    shard = parent.shard.encode()
    transaction.later(transaction.bind("leave_ends", ids=ids, shard=shard, origin=_ORIGIN, now=transaction.now))


class MysqlOutgoing:
    """The part of a shard that hands out messages for other shards."""

    _database: Database
    _probe: MaintenanceProbe

    async def outgoing_shards(self) -> set[str]:
        if (await self._probe.find()).outgoing is None:
            return set()
        return {
            shard.decode() for (shard,) in await self._database.rows(self._database.queries.bind("outgoing_shards"))
        }

    async def outgoing_messages(self, shard: str, left_for_ms: int | None = None) -> list[OutgoingMessage]:
        bind, name = self._database.queries.bind, shard.encode()
        if left_for_ms is None:
            find = bind("outgoing_sizes", shard=name, limit=_PAGE_MESSAGES, origin=_ORIGIN)
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

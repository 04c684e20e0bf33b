"""Messages to jobs, children of jobs, and cancellation; see ``scripts/parts/inboxes.lua`` and ``links.lua``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice

from pinlater.errors import QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import Message, ReceivedMessage
from pinlater.server.backends.answers import fitting_messages
from pinlater.server.backends.end_messages import joined_messages
from pinlater.server.backends.records import MAX_ANSWER_BYTES, MESSAGE_OVERHEAD_BYTES, Cancelled
from pinlater.server.backends.redis.lifecycle import mark, pack
from pinlater.server.backends.redis.records import address_of, address_seen_from
from pinlater.server.backends.redis.script_calls import PAGE_JOBS, ScriptRunner
from pinlater.server.backends.sharded import OutgoingMessage

_LINKED = mark(is_linked=True)

_OUTGOING = "outgoing"
"""Key of the set of other shards for which there are messages; see ``inboxes.lua``."""

_OUTGOING_PAGE = 200
"""Most messages that are delivered at once."""

_MOST_IDS = 1000
"""Most messages of one name whose ids are read."""


class RedisMessages:
    """The part of a shard for messages to jobs, children of jobs, and cancellation."""

    _scripts: ScriptRunner
    _slow_scripts: ScriptRunner
    on_outgoing: Callable[[Collection[str]], None]

    async def cancel_jobs(self, queue: str, jobs: Sequence[JobDescriptor], status: str) -> Cancelled:
        ended: list[JobDescriptor] = []
        asked: list[JobDescriptor] = []
        parents: list[JobDescriptor] = []
        let_through = newly_ended = 0
        for start in range(0, max(len(jobs), 1), PAGE_JOBS):  # without jobs, a missing queue is still an error
            page = jobs[start : start + PAGE_JOBS]
            packed = pack([(job.priority, job.local_id) for job in page])
            found = await self._scripts.run("cancel_jobs", queue, packed, status, *_LINKED)
            some_ended, some_asked, some_parents, newly, through, *woken = found
            self._scripts.tell_woken(woken)
            ended += (page[index] for index in some_ended)
            asked += (page[index] for index in some_asked)
            parents += (page[index] for index in some_parents)
            newly_ended += newly
            let_through += through
        return Cancelled(tuple(ended), tuple(asked), let_through, tuple(parents), newly_ended)

    async def finish_cancellation(self, queue: str, jobs: Sequence[JobDescriptor]) -> None:
        for start in range(0, len(jobs), PAGE_JOBS):
            page = pack([(job.priority, job.local_id) for job in jobs[start : start + PAGE_JOBS]])
            await self._scripts.run("finish_cancellation", queue, page, *_LINKED)

    async def send_message(self, job: JobDescriptor, message: Message) -> bool:
        return bool(await self._deliver([(job, message)], is_event=True))

    async def read_messages(
        self, job: JobDescriptor, name: str, after: int, limit: int, max_bytes: int = MAX_ANSWER_BYTES
    ) -> list[ReceivedMessage]:
        found: list[ReceivedMessage] = []
        room = max_bytes
        while len(found) < limit:
            size = min(limit - len(found), PAGE_JOBS)
            arguments = (job.priority, job.local_id, name, after, size, room, MESSAGE_OVERHEAD_BYTES)
            try:
                first, page = await self._slow_scripts.run("read_messages", job.queue, *arguments)
            except QueueNotFound:
                break
            some = list(islice(_messages(first, page), size))
            found += some
            after = first + len(some) - 1
            room -= sum(len(message.payload) for message in some) + MESSAGE_OVERHEAD_BYTES * len(some)
            if len(some) < size or room <= 0:
                break
        return fitting_messages(found, max_bytes)

    async def message_ids(self, jobs: Sequence[JobDescriptor], name: str) -> set[str]:
        reads = (self.read_messages(job, name, 0, _MOST_IDS) for job in jobs)
        return {message.id for found in await asyncio.gather(*reads) for message in found}

    async def children_to_cancel(self, parents: Sequence[JobDescriptor], limit: int) -> list[JobDescriptor]:
        scripts = self._slow_scripts
        addresses = [address_seen_from(scripts.name, parent) for parent in parents]
        found: list[JobDescriptor] = []
        for start in range(0, len(addresses), PAGE_JOBS):
            page, is_unfinished = pack(addresses[start : start + PAGE_JOBS]), True
            while is_unfinished:  # the script looks at a few of many children at a time
                children, is_unfinished = await scripts.run_for_shard(
                    "open_children", "children", page, limit - len(found)
                )
                found += (_job(scripts.name, child) for child in children)
        return found

    async def outgoing_shards(self) -> set[str]:
        names = await self._slow_scripts.command("SMEMBERS", self._slow_scripts.shard_key(_OUTGOING))
        return {shard.decode() for shard in names}

    async def outgoing_messages(self, shard: str, left_for_ms: int | None = None) -> list[OutgoingMessage]:
        arguments = (shard, _OUTGOING_PAGE, "" if left_for_ms is None else left_for_ms)
        entries = await self._slow_scripts.run_for_shard("read_outgoing", _OUTGOING, *arguments, is_repeatable=False)
        return [
            _outgoing(shard, number.decode(), dict(zip(*[iter(fields)] * 2, strict=True))) for number, fields in entries
        ]

    async def deliver_messages(self, messages: Sequence[OutgoingMessage]) -> None:
        await self._deliver([(job, message) for _, job, message in messages], is_event=False)

    async def _deliver(self, messages: Iterable[tuple[JobDescriptor, Message]], *, is_event: bool) -> int:
        """Store messages; return how many of their jobs there are."""
        flat: list[str | bytes | int] = []
        for job, (name, own, payload, kind) in messages:
            flat += (address_of(job), name, own, int(kind), payload)
        run = self._scripts.run_for_shard("deliver_messages", "inboxes", "1" if is_event else "", *flat)
        jobs, *woken = await run
        self._scripts.tell_woken(woken)
        return int(jobs)

    async def forget_outgoing(self, shard: str, messages: Sequence[OutgoingMessage]) -> None:
        numbers = (str(message.number) for message in messages)
        await self._slow_scripts.run_for_shard("forget_outgoing", _OUTGOING, shard, *numbers)

    def _notify_outgoing(self, shards: Collection[str]) -> None:
        self.on_outgoing(shards)


def _messages(first: int, page: Iterable[bytes | list[bytes]]) -> Iterator[ReceivedMessage]:
    """Decode the messages of a page from a number on; see ``read_messages.lua``."""
    number = first
    for stored in page:
        if isinstance(stored, list):
            start, ids, sizes, payloads = stored[0].split(b"\0", 3)
            some = joined_messages(int(start), ids.decode(), sizes.decode(), payloads)
            new = some[number - int(start) :]
        else:
            message_id, _, payload = stored[1:].partition(b"\0")
            new = [ReceivedMessage(number, message_id.decode(), payload, int(stored[:1]))]
        yield from new
        number += len(new)


def _job(shard: str, address: bytes) -> JobDescriptor:
    queue, priority, local_id = address.decode().split()
    return JobDescriptor(queue, shard, int(priority), int(local_id))


async def drop_leftovers(scripts: ScriptRunner) -> None:
    """Delete the links and messages of jobs of deleted queues, and send messages to their parents, in steps."""
    key = "leftovers"
    while (dead := await scripts.command("SRANDMEMBER", scripts.shard_key(key))) is not None:
        cursor = b"0"
        while True:
            cursor, *woken = await scripts.run_for_shard("drop_links", key, dead, cursor, PAGE_JOBS)
            scripts.tell_woken(woken)
            if cursor == b"0":
                break


def _outgoing(shard: str, number: str, fields: dict[bytes, bytes]) -> OutgoingMessage:
    name, own, kind = (fields[field].decode() for field in (b"name", b"id", b"kind"))
    message = Message(name, own, fields[b"payload"], int(kind))
    return OutgoingMessage(number, _job(shard, fields[b"job"]), message)

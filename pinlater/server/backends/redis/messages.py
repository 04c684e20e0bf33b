"""Messages to jobs, children of jobs, and cancellation; see ``scripts/parts/inboxes.lua`` and ``links.lua``."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from pinlater.errors import QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import Message, ReceivedMessage
from pinlater.server.backends.answers import fitting_messages
from pinlater.server.backends.end_messages import joined_messages
from pinlater.server.backends.records import MAX_ANSWER_BYTES, MESSAGE_OVERHEAD_BYTES, Cancelled
from pinlater.server.backends.redis.lifecycle import mark, pack, pack_ids
from pinlater.server.backends.redis.reads import PAGE_JOBS
from pinlater.server.backends.redis.records import address_of, address_seen_from
from pinlater.server.backends.redis.script_calls import ScriptRunner
from pinlater.server.backends.sharded import OutgoingMessage

_LINKED = mark(is_linked=True)

_OUTGOING = "outgoing"
"""Key of the set of other shards for which there are messages; see ``inboxes.lua``."""

_OUTGOING_PAGE = 200
"""Most messages that are delivered at once."""

_MOST_IDS = 1000
"""Most messages of one name whose ids are read."""


async def cancel(scripts: ScriptRunner, queue: str, jobs: Sequence[JobDescriptor], status: str) -> Cancelled:
    """Cancel jobs of a queue, page by page.

    PENDING -> FAILED; IN_PROGRESS, or PENDING with something to undo -> the same, asked to stop.
    """
    ended: list[JobDescriptor] = []
    asked: list[JobDescriptor] = []
    parents: list[JobDescriptor] = []
    let_through = newly_ended = 0
    for start in range(0, max(len(jobs), 1), PAGE_JOBS):  # without jobs, a missing queue is still an error
        page = jobs[start : start + PAGE_JOBS]
        packed = pack([(job.priority, job.local_id) for job in page])
        found = await scripts.run("cancel_jobs", queue, packed, status, *_LINKED)
        some_ended, some_asked, some_parents, newly, through, *woken = found
        scripts.tell_woken(woken)
        ended += (page[index] for index in some_ended)
        asked += (page[index] for index in some_asked)
        parents += (page[index] for index in some_parents)
        newly_ended += newly
        let_through += through
    return Cancelled(tuple(ended), tuple(asked), let_through, tuple(parents), newly_ended)


async def finish_cancellation(scripts: ScriptRunner, queue: str, jobs: Sequence[JobDescriptor]) -> None:
    """Take cancelled jobs off the children of their parents, page by page."""
    for start in range(0, len(jobs), PAGE_JOBS):
        page = pack([(job.priority, job.local_id) for job in jobs[start : start + PAGE_JOBS]])
        await scripts.run("finish_cancellation", queue, page, *_LINKED)


async def send(scripts: ScriptRunner, job: JobDescriptor, message: Message) -> bool:
    """Store a message to a job; return False if the job does not exist or has finished."""
    name, message_id, payload, kind = message
    arguments = (address_of(job), name, message_id, int(kind), payload, *_LINKED)
    try:
        is_there, *woken = await scripts.run("send_message", job.queue, *arguments)
    except QueueNotFound:
        return False
    scripts.tell_woken(woken)
    return bool(is_there)


async def read(
    scripts: ScriptRunner, job: JobDescriptor, name: str, *, after: int, limit: int, max_bytes: int
) -> list[ReceivedMessage]:
    """Return messages of a job in order of their numbers; read them page by page."""
    found: list[ReceivedMessage] = []
    room = max_bytes
    while len(found) < limit:
        size = min(limit - len(found), PAGE_JOBS)
        arguments = (job.priority, job.local_id, name, after, size, room, MESSAGE_OVERHEAD_BYTES)
        try:
            first, page = await scripts.run("read_messages", job.queue, *arguments)
        except QueueNotFound:
            break
        some = list(islice(_messages(first, page), size))
        found += some
        after = first + len(some) - 1
        room -= sum(len(message.payload) for message in some) + MESSAGE_OVERHEAD_BYTES * len(some)
        if len(some) < size or room <= 0:
            break
    return fitting_messages(found, max_bytes)


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


async def children_to_cancel(
    scripts: ScriptRunner, parents: Sequence[JobDescriptor], limit: int
) -> list[JobDescriptor]:
    """Return up to ``limit`` jobs that have to be cancelled with these parents."""
    by_queue: defaultdict[str, list[JobDescriptor]] = defaultdict(list)
    distant: list[str] = []
    for parent in parents:
        if parent.shard == scripts.name:
            by_queue[parent.queue].append(parent)
        else:
            distant.append(address_seen_from(scripts.name, parent))
    found: list[JobDescriptor] = []
    for start in range(0, len(distant), PAGE_JOBS):
        page = pack(distant[start : start + PAGE_JOBS])
        run = partial(scripts.run_for_shard, "distant_children", "children", page, limit - len(found))
        found += await _found_by(run, scripts.name)
    for queue, some in by_queue.items():
        with suppress(QueueNotFound):
            for start in range(0, len(some), PAGE_JOBS):
                page = pack_ids(some[start : start + PAGE_JOBS])
                run = partial(scripts.run, "open_children", queue, page, limit - len(found), *_LINKED)
                found += await _found_by(run, scripts.name)
    return found


async def _found_by(run: Callable[[], Awaitable[Any]], shard: str) -> list[JobDescriptor]:
    """Return the children that a script finds, which looks at a few of many children at a time."""
    is_unfinished = True
    while is_unfinished:
        children, is_unfinished = await run()
    return [_job(shard, child) for child in children]


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


async def message_ids(scripts: ScriptRunner, jobs: Sequence[JobDescriptor], name: str) -> set[str]:
    """Return the ids of all messages of a name that any of these jobs has."""
    reads = (read(scripts, job, name, after=0, limit=_MOST_IDS, max_bytes=MAX_ANSWER_BYTES) for job in jobs)
    return {message.id for found in await asyncio.gather(*reads) for message in found}


async def outgoing_shards(scripts: ScriptRunner) -> set[str]:
    """Return the other shards for which there are messages."""
    return {shard.decode() for shard in await scripts.command("SMEMBERS", scripts.shard_key(_OUTGOING))}


async def read_outgoing(scripts: ScriptRunner, shard: str, left_for_ms: int | None) -> list[OutgoingMessage]:
    """Return a page of the messages for another shard, the oldest first.

    Without ``left_for_ms``, only messages that no call has returned so far; with it, all that are that old.
    """
    age = "" if left_for_ms is None else left_for_ms
    entries = await scripts.run_for_shard("read_outgoing", _OUTGOING, shard, _OUTGOING_PAGE, age, is_repeatable=False)
    return [
        _outgoing(shard, number.decode(), dict(zip(*[iter(fields)] * 2, strict=True))) for number, fields in entries
    ]


def _outgoing(shard: str, number: str, fields: dict[bytes, bytes]) -> OutgoingMessage:
    name, own, kind = (fields[field].decode() for field in (b"name", b"id", b"kind"))
    message = Message(name, own, fields[b"payload"], int(kind))
    return OutgoingMessage(number, _job(shard, fields[b"job"]), message)


async def deliver(scripts: ScriptRunner, messages: Sequence[OutgoingMessage]) -> None:
    """Store messages from another shard."""
    flat: list[str | bytes | int] = []
    for _, job, (name, own, payload, kind) in messages:
        flat += (address_of(job), name, own, int(kind), payload)
    scripts.tell_woken(await scripts.run_for_shard("deliver_messages", "inboxes", *flat))


async def forget_outgoing(scripts: ScriptRunner, shard: str, messages: Sequence[OutgoingMessage]) -> None:
    """Delete messages for another shard that has received them."""
    numbers = (str(message.number) for message in messages)
    await scripts.run_for_shard("forget_outgoing", _OUTGOING, shard, *numbers)

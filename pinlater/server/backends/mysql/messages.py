"""Messages to jobs: they are stored with the job, and a sleeping job that waits for one becomes due.

A transaction that stores messages first locks the jobs they are for, in the order of ids, until its commit. So the
numbers of a job's messages have no gaps. Nor can a job fall asleep and miss a message that is being stored: the
transaction that puts it to sleep changes the job first, and checks for the message afterwards.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import without_wait
from pinlater.model.messages import Message, MessageWait
from pinlater.protocol.messages import FAILED, PENDING
from pinlater.server.backends.grouping import grouped
from pinlater.server.backends.mysql.connection import StatementResult
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.group_commit import CommitBatch
from pinlater.server.backends.mysql.keys import Keys, QueueKey, let_next_through
from pinlater.server.backends.mysql.queries import blob, insertions
from pinlater.server.backends.mysql.transaction import MysqlTransaction, Woken

DELETED_AT_ONCE = 10_000
"""A transaction deletes at most about this many messages."""


Name = tuple[int, bytes]
"""Id of a job, and name of messages to it."""

_Key = tuple[int, bytes, bytes]
"""Id of a job, and name and id of a message to it."""


class Incoming(NamedTuple):
    """A message to be stored.

    Attributes:
        job: the job it is for.
        queue_id: id of the job's queue; None: it is the end of a child, whose descriptor needs no check.
        message: the message.
    """

    job: JobDescriptor
    queue_id: int | None
    message: Message

    @property
    def key(self) -> _Key:
        """What identifies the message among those that are stored."""
        return self.job.local_id, self.message.name.encode(), self.message.id.encode()


class Inbox(NamedTuple):
    """A job that messages are for, which has not succeeded."""

    id: int
    queue_id: int
    priority: int
    state: int
    run_after: int
    waits_for: bytes | None
    key: bytes | None

    def takes(self, one: Incoming) -> bool:
        """Return whether the job gets a message: the end of a child, or another one if that is for this job."""
        if one.queue_id is None:
            return True
        return self.state != FAILED and (self.queue_id, self.priority) == (one.queue_id, one.job.priority)

    def is_woken(self, counts: Mapping[Name, int], now: int) -> bool:
        """Return whether the job sleeps and one of its waits is fulfilled, given how many messages there are now."""
        if self.state != PENDING or self.waits_for is None or without_wait(self.run_after) <= now:
            return False
        return any(counts.get((self.id, name.encode()), 0) >= number for name, number in read_waits(self.waits_for))


async def send_messages(database: Database, batch: CommitBatch[Sequence[Incoming], list[bool]]) -> None:
    """Attempt to store the messages of a batch; the result of each call tells for each message if its job has it."""
    async with database.transaction() as transaction:
        are_there, woken = await _deliver(transaction, [one for call in batch.requests for one in call])
        await let_next_through(transaction, woken)
        with batch.committing():
            await transaction.run_and_commit()
    answers = iter(are_there)
    batch.answer([list(islice(answers, len(call))) for call in batch.requests])


async def _deliver(transaction: MysqlTransaction, incoming: Sequence[Incoming]) -> tuple[list[bool], Keys]:
    """Store messages in order, except those that their jobs already have, and wake the jobs that wait for them.

    The changes are executed with the transaction's next statements.

    Returns:
        For each message, whether its job has it, so exists and has not finished; and the keys of the jobs that were
        woken, for ``let_next_through``.
    """
    keys = [one.key for one in incoming]
    wanted = list(dict.fromkeys(keys))
    texts = json.dumps([(job, name.hex(), own.hex()) for job, name, own in wanted])
    inboxes, counts, [found] = await open_inboxes(
        transaction, {(job, name) for job, name, _ in wanted}, transaction.bind("known_messages", wanted=texts)
    )
    known = {wanted[place - 1] for (place,) in found.rows}
    rows: list[bytes] = []
    stored: Counter[int] = Counter()
    are_there: list[bool] = []
    for one, key in zip(incoming, keys, strict=True):
        job, name, _ = key
        inbox = inboxes.get(job)
        are_there.append(inbox is not None and inbox.takes(one))
        if are_there[-1] and key not in known:
            known.add(key)
            counts[job, name] += 1
            rows.append(_row(key, counts[job, name], one.message))
            stored[job] += 1
    transaction.later(*insertions(transaction.bind("insert_messages"), rows))
    queues = {one.job.local_id: one.job.queue for one in incoming}
    return are_there, settle(transaction, inboxes, counts, stored, queues)


def settle(
    transaction: MysqlTransaction,
    inboxes: Mapping[int, Inbox],
    counts: Mapping[Name, int],
    stored: Mapping[int, int],
    queues: Mapping[int, str],
) -> Keys:
    """Add to the message counts of jobs, and wake the jobs that waited; return the keys of the woken jobs, by id.

    Args:
        transaction: stores the messages, and executes these changes with its next statements.
        inboxes: the jobs, by id.
        counts: how many messages the jobs have now, by job id and name.
        stored: how many messages were stored, by job id.
        queues: name of each job's queue, by job id.
    """
    for count, some in grouped((count, local_id) for local_id, count in stored.items()).items():
        transaction.later(transaction.bind("count_messages", ids=sorted(some), count=count))
    woken = [inbox for local_id in stored if (inbox := inboxes[local_id]).is_woken(counts, transaction.now)]
    if woken:
        transaction.later(transaction.bind("wake_jobs", ids=sorted(inbox.id for inbox in woken), now=transaction.now))
    transaction.woken += [Woken(queues[inbox.id], inbox.queue_id, inbox.priority) for inbox in woken]
    return {inbox.id: QueueKey(inbox.queue_id, inbox.key) for inbox in woken if inbox.key is not None}


def _row(key: _Key, number: int, message: Message) -> bytes:
    job, name, message_id = key
    content = (message.kind, len(message.payload), blob(message.payload))
    return b"(%d,%b,%d,%b,%d,%d,%b)" % (job, blob(name), number, blob(message_id), *content)


async def open_inboxes(
    transaction: MysqlTransaction, names: Collection[Name], *queries: bytes
) -> tuple[dict[int, Inbox], Counter[Name], list[StatementResult]]:
    """Lock jobs; return those that get messages by id, their message counts by name, and results of more queries."""
    listed = list(names)
    found, counts, *others = await transaction.run(
        transaction.bind("inboxes", ids=sorted({job for job, _ in listed})),
        transaction.bind("message_counts", counted=json.dumps([(job, name.hex()) for job, name in listed])),
        *queries,
    )
    return (
        {row[0]: Inbox(*row) for row in found.rows},
        Counter({listed[place - 1]: number or 0 for place, number in counts.rows}),
        others,
    )


def waits_text(waits: Iterable[MessageWait]) -> bytes | None:
    """Encode the waits of a job for its column; None if there are none."""
    listed = [list(wait) for wait in waits]
    return json.dumps(listed, separators=(",", ":")).encode() if listed else None


def read_waits(stored: bytes | None) -> tuple[MessageWait, ...]:
    """Decode the waits of a job."""
    return () if stored is None else tuple(MessageWait(name, number) for name, number in json.loads(stored))


def delete_inboxes(transaction: MysqlTransaction, messages: Mapping[int, int]) -> None:
    """Delete the messages of jobs about to be deleted, given how many each has; too many are left to the monitor.

    They are deleted with the transaction's next statements.
    """
    at_once: list[int] = []
    left = DELETED_AT_ONCE
    for local_id, count in sorted(messages.items(), key=lambda item: (item[1], item[0])):
        if 0 < count <= left:
            at_once.append(local_id)
            left -= count
    later = sorted(local_id for local_id, count in messages.items() if count and local_id not in set(at_once))
    if at_once:
        transaction.later(transaction.bind("delete_messages", ids=sorted(at_once)))
    transaction.later(*insertions(transaction.bind("insert_deleted_inboxes"), (b"(%d)" % job for job in later)))


async def delete_leftover_messages(database: Database, steps: int) -> None:
    """Delete messages that were too many to be deleted with their jobs, in up to ``steps`` transactions."""

    async def change(transaction: MysqlTransaction) -> bool:
        rows: list[tuple[Any, ...]] = await transaction.rows("deleted_inbox")
        if not rows:
            return False
        delete = transaction.bind("delete_some_messages", job=rows[0][0], limit=DELETED_AT_ONCE)
        if (await transaction.run(delete))[0].matched < DELETED_AT_ONCE:
            await transaction.run(transaction.bind("forget_inbox", job=rows[0][0]))
        return True

    for _ in range(steps):
        if not await database.change(change, is_repeatable=True):
            return

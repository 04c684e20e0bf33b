"""Messages to jobs: one transaction stores them and makes the sleeping jobs due that wait for them."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, dropwhile, islice, starmap
from typing import NamedTuple

import msgspec

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import MAX_DROPPED, Message, MessageWait, ReceivedMessage
from pinlater.protocol.messages import FAILED, IN_PROGRESS
from pinlater.server.backends.answers import fitting_messages
from pinlater.server.backends.end_messages import joined_messages
from pinlater.server.backends.search import Queue
from pinlater.server.backends.sqlite.keys import keys_of, let_next_through
from pinlater.server.backends.sqlite.queries import QUERIES
from pinlater.server.backends.sqlite.transaction import SqliteTransaction, id_list, joined

_RECEIVERS = QUERIES["receivers"]
_KNOWN = QUERIES["known_messages"]
_STORE = QUERIES["store_messages"]
_STORE_SUCCESSES = QUERIES["store_successes"]
_COUNT = QUERIES["count_messages"]
_SCHEDULE = QUERIES["schedule_this_job"]

_MOST_BYTES_TOGETHER = 1 << 17
"""Most bytes of results in one row, which is read as a whole."""

_FORGOTTEN_AT_ONCE = 10_000
"""Most rows of messages of deleted jobs that are deleted at a time: a job may have many."""

_FORGOTTEN_BYTES = 8 << 20
"""The same in bytes: SQLite reads each page that it frees, and others wait meanwhile."""

_waits = msgspec.json.Decoder(list[MessageWait]).decode


class SendRequest(NamedTuple):
    """A message to one job."""

    queue_id: int
    priority: int
    job_id: int
    message: Message


class MessagePage(NamedTuple):
    """Which messages to read: up to ``limit`` with a larger number than ``after``, and ``max_bytes`` of them."""

    after: int
    limit: int
    max_bytes: int


class Receiver(NamedTuple):
    """A job that can get messages, since it has not finished; ``waits_for`` is the encoded column."""

    job_id: int
    queue_id: int
    priority: int
    waits_for: str | None


class Successes(NamedTuple):
    """What children that have succeeded tell their parent: their positions and results, in the same order."""

    ids: list[int]
    payloads: list[bytes]

    def add(self, position: int, result: bytes) -> None:
        """Add a child."""
        self.ids.append(position)
        self.payloads.append(result)


class Mail:
    """Messages that a transaction is going to store.

    Attributes:
        messages: those with a row for each, by the id of the job that gets them.
        successes: those of children that have succeeded, by the id and message name of their parent.
    """

    def __init__(self) -> None:
        self.messages: defaultdict[int, list[Message]] = defaultdict(list)
        self.successes: dict[tuple[int, str], Successes] = {}

    def successes_to(self, job_id: int, name: str) -> Successes:
        """Return the list of what children tell a parent, to be extended."""
        return self.successes.setdefault((job_id, name), Successes([], []))

    @property
    def receivers(self) -> set[int]:
        """The ids of the jobs that get messages."""
        return self.messages.keys() | {job_id for job_id, _ in self.successes}


def send(transaction: SqliteTransaction, requests: Sequence[SendRequest]) -> list[bool]:
    """Store messages; return for each whether its job has it now."""
    asked = {request.job_id for request in requests}
    receivers = {one.job_id: one for one in receivers_of(transaction, asked, last_state=IN_PROGRESS)}
    mail = Mail()
    results: list[bool] = []
    for request in requests:
        receiver = receivers.get(request.job_id)
        is_there = receiver is not None and receiver[1:3] == request[:2]
        if is_there:
            mail.messages[request.job_id].append(request.message)
        results.append(is_there)
    deliver(transaction, mail, receivers.values())
    return results


def receivers_of(transaction: SqliteTransaction, job_ids: Iterable[int], *, last_state: int = FAILED) -> list[Receiver]:
    """Return those of these jobs that can get messages.

    Those that are FAILED are told how their children end, since they may be retried, and then wait for these.
    """
    return [Receiver(*row) for row in transaction.rows(_RECEIVERS, (id_list(job_ids), last_state))]


def deliver(transaction: SqliteTransaction, mail: Mail, receivers: Iterable[Receiver]) -> None:
    """Store the messages of those jobs that can get them, and make the jobs due whose sleep that ends."""
    wanted = mail.receivers
    reached = {receiver.job_id: receiver for receiver in receivers if receiver.job_id in wanted}
    counts = _store(transaction, {job_id: mail.messages[job_id] for job_id in reached if job_id in mail.messages})
    for (job_id, name), successes in mail.successes.items():
        if job_id in reached:
            counts[job_id, name] = _store_successes(transaction, job_id, name, successes)
    _after_storing(transaction, list(reached.values()), counts)


def _after_storing(
    transaction: SqliteTransaction, reached: Sequence[Receiver], counts: Mapping[tuple[int, str], int]
) -> None:
    """Make those jobs due whose sleep ends; ``counts`` says how many messages they have now of each new name."""
    for queue_id in {receiver.queue_id for receiver in reached}:
        transaction.mark_with_messages(queue_id)
    woken: defaultdict[int, list[Receiver]] = defaultdict(list)
    for receiver in reached:
        waits = () if receiver.waits_for is None else _waits(receiver.waits_for)
        if any(counts.get((receiver.job_id, name), 0) >= number for name, number in waits):
            woken[receiver.queue_id].append(receiver)
    for queue_id, sleepers in woken.items():
        wake(transaction, queue_id, sleepers)


def _store_successes(transaction: SqliteTransaction, job_id: int, name: str, successes: Successes) -> int:
    """Store the messages of children that have succeeded, except of those that had told of a failure before.

    Return how many messages of that name the job has now. A child that has succeeded does not end again, so their ids
    need no index, and one row takes them all, or as many as may be read at once.
    """
    number = _count(transaction, job_id, name)
    pairs: Iterable[tuple[int, bytes]] = zip(*successes, strict=True)
    if number and transaction.rows(QUERIES["has_single_messages"], (job_id, name)):
        wanted = msgspec.json.encode([(job_id, name, str(position)) for position in successes.ids]).decode()
        known = {message_id for _, _, message_id in transaction.rows(_KNOWN, (wanted,))}
        pairs = [(position, payload) for position, payload in pairs if str(position) not in known]
    for ids, payloads in _rows_of(list(pairs)):
        number += len(ids)
        sizes = ",".join(map(str, map(len, payloads)))
        row = job_id, name, number, ",".join(map(str, ids)), b"".join(payloads), sizes
        transaction.run(_STORE_SUCCESSES, row)
    return number


def _rows_of(pairs: Sequence[tuple[int, bytes]]) -> Iterable[tuple[Sequence[int], Sequence[bytes]]]:
    """Yield the ids and payloads of each row."""
    start, size = 0, 0
    for end, (_, payload) in enumerate(pairs):
        size += len(payload)
        if size > _MOST_BYTES_TOGETHER and end > start:
            yield tuple(zip(*pairs[start:end], strict=True))  # type: ignore[misc]
            start, size = end, len(payload)
    if pairs:
        yield tuple(zip(*pairs[start:], strict=True))  # type: ignore[misc]


def _store(transaction: SqliteTransaction, mail: Mapping[int, Sequence[Message]]) -> dict[tuple[int, str], int]:
    """Store messages, only the first of those with the same name and id.

    Return by job and name how many messages the job has now, for the names of which it got new ones.
    """
    new: dict[tuple[int, str, str], Message] = {}
    for job_id, messages in mail.items():
        for message in messages:
            new.setdefault((job_id, message.name, message.id), message)
    for known in transaction.rows(_KNOWN, (msgspec.json.encode(list(new)).decode(),)) if new else ():
        del new[known]
    counts: dict[tuple[int, str], int] = {}
    rows: list[tuple[object, ...]] = []
    places, payloads = joined(message.payload for message in new.values())
    for (job_id, name, message_id), place in zip(new, places, strict=True):
        if (job_id, name) not in counts:
            counts[job_id, name] = _count(transaction, job_id, name)
        counts[job_id, name] += 1
        rows.append((job_id, name, message_id, counts[job_id, name], new[job_id, name, message_id].kind, *place))
    if rows:
        transaction.run(_STORE, (msgspec.json.encode(rows).decode(), payloads))
    return counts


def _count(transaction: SqliteTransaction, job_id: int, name: str) -> int:
    [(count,)] = transaction.rows(_COUNT, (job_id, name))
    return count or 0


def is_fulfilled(transaction: SqliteTransaction, job_id: int, waits: Iterable[MessageWait]) -> bool:
    """Return whether a job has got as many messages as one of its waits says."""
    return any(_count(transaction, job_id, name) >= number for name, number in waits)


def keep(transaction: SqliteTransaction, queue_id: int, job_id: int, messages: Sequence[Message]) -> None:
    """Store the messages that a claimed job leaves for its later attempts."""
    transaction.mark_with_messages(queue_id)
    _store(transaction, {job_id: list(messages)})


def drop(transaction: SqliteTransaction, job_id: int, names: Iterable[str]) -> None:
    """Delete messages of a claimed job by name; only the first ``MAX_DROPPED`` of each name."""
    for name in names:
        transaction.run(QUERIES["drop_messages"], (job_id, name, MAX_DROPPED))


def wake(transaction: SqliteTransaction, queue_id: int, sleepers: Sequence[Receiver]) -> None:
    """Make sleeping jobs of one queue due, except those that already are."""
    for job_id, _, priority, _ in sleepers:
        now = transaction.now
        is_woken = transaction.run(_SCHEDULE, (queue_id, now, job_id, priority, now, False))
        transaction.woken[queue_id, priority] = transaction.woken.get((queue_id, priority), 0) + is_woken
    let_next_through(transaction, keys_of(transaction, queue_id, (sleeper.job_id for sleeper in sleepers)))


def waits_column(waits: Sequence[MessageWait]) -> str | None:
    """Encode the waits of a job for its column."""
    return msgspec.json.encode(waits).decode() if waits else None


def waits_of(column: str | None) -> tuple[MessageWait, ...]:
    """Decode the waits of a job from its column."""
    return () if column is None else tuple(_waits(column))


def forget_messages(transaction: SqliteTransaction, queue_id: int, job_ids: Sequence[int]) -> None:
    """Delete the messages of those of these jobs that are gone; if there are many, the monitor deletes the rest."""
    if queue_id in transaction.queues.with_messages and job_ids:
        transaction.run(QUERIES["note_deleted_receivers"], (id_list(job_ids),))
        forget_more(transaction)


def forget_more(transaction: SqliteTransaction) -> None:
    """Delete some more messages of jobs that are gone."""
    transaction.run(QUERIES["forget_messages"], (_FORGOTTEN_AT_ONCE, _FORGOTTEN_BYTES))
    transaction.run(QUERIES["forget_receivers"], (_FORGOTTEN_AT_ONCE,))


def read(
    connection: sqlite3.Connection, queue: Queue, job: JobDescriptor, name: str, page: MessagePage
) -> list[ReceivedMessage]:
    """Return messages of a job, in order of their numbers."""
    parameters = (queue.id, job.local_id, job.priority, name, page.after, page.limit)
    rows = connection.execute(QUERIES["messages"], parameters)
    messages = chain.from_iterable(starmap(messages_of_row, rows))
    unread = dropwhile(lambda message: message.number <= page.after, messages)
    return fitting_messages(islice(unread, page.limit), page.max_bytes)


def messages_of_row(number: int, ids: str, payload: bytes, kind: int, sizes: str | None) -> Iterable[ReceivedMessage]:
    """Return the messages of a row."""
    if sizes is None:
        return [ReceivedMessage(number, ids, payload, kind)]
    return joined_messages(number - ids.count(","), ids, sizes, payload)

"""The protocol of a shard: the verbs of a store, and what a sharded store asks in addition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import NamedTuple, Protocol

from pinlater.errors import ShardConnectionFailed
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import Message
from pinlater.model.queues import QueueSettings
from pinlater.server.backends.records import MAX_ANSWER_BYTES, Claim, Dequeued, StoreSize
from pinlater.server.backends.sharded.shard_clock import ShardClock
from pinlater.server.backends.store import Store
from pinlater.server.backends.token_bucket import Tokens

MOST_READ_TOGETHER = 21
"""Most queues of which a dequeue has the due priorities read: its own, and others that will soon be too old."""


class ShardUnreachable(ShardConnectionFailed):
    """Nothing of the call reached the shard, so it may be sent to another one."""


class ShardFull(ShardUnreachable):
    """The shard answers, but has no space for new jobs, or accepts no changes; nothing was changed."""


class ShardSpec(NamedTuple):
    """A shard as described by the shard file.

    Attributes:
        name: name of the shard, as in descriptors.
        endpoint: address and credentials, in a form that depends on the store; if it changes, the shard is reopened.
        is_dequeue_only: whether the shard takes no new jobs, so that it can be emptied.
    """

    name: str
    endpoint: Hashable
    is_dequeue_only: bool = False


class CallResult(NamedTuple):
    """The stored result of a call with an idempotency key.

    Attributes:
        number: id of the call's first new job, with one id for each place in the call; or how many jobs were changed.
        elsewhere: for new jobs whose unique key was taken: place in the call, priority and id of the job that has it.
    """

    number: int
    elsewhere: Sequence[tuple[int, int, int]] = ()

    def names(self, head: str, priorities: Iterable[int]) -> list[str]:
        """Return the descriptors of new jobs.

        Args:
            head: beginning of the descriptors: ``queue:s<shard>:p``.
            priorities: priorities of the jobs, in the order of the call.
        """
        names = [f"{head}{priority}:{local_id}" for local_id, priority in enumerate(priorities, self.number)]
        for place, priority, local_id in self.elsewhere:
            names[place] = f"{head}{priority}:{local_id}"
        return names


class DuePriorities(NamedTuple):
    """Which priorities of a queue have due jobs.

    Attributes:
        priorities: priorities with due jobs.
        next_due_ms: when the next job that is not due yet falls due; None: there is none.
        first_due_ms: when the first job fell due, or will; None: there is none.
    """

    priorities: Sequence[int]
    next_due_ms: int | None
    first_due_ms: int | None = None

    @classmethod
    def at(cls, now_ms: int, first_due_ms: Sequence[int | None]) -> DuePriorities:
        """Return the due priorities, given when the first job of each priority falls due."""
        return cls(
            [priority for priority, due in enumerate(first_due_ms, 1) if due is not None and due <= now_ms],
            min((due for due in first_due_ms if due is not None and due > now_ms), default=None),
            min((due for due in first_due_ms if due is not None), default=None),
        )


class OutgoingMessage(NamedTuple):
    """A message that a shard has for a job on another shard.

    Attributes:
        number: identifies the message on the shard that has it.
        job: the job it is for.
        message: the message.
    """

    number: int | str
    job: JobDescriptor
    message: Message


class Shard(Store, Protocol):
    """A store that keeps a part of the jobs of every queue, and answers a few more questions.

    A verb raises ``ShardConnectionFailed`` when the shard does not answer, after its own retries and within 10 s,
    and ``ShardUnreachable`` if nothing was sent. Both count against the shard's health; other errors do not, nor does
    ``ShardFull``, which sends new jobs to another shard. A shard has its own list of queues, and raises
    ``QueueNotFound`` for those that it lacks; the sharded store finds out whether another shard has them. A shard does
    not connect before its first call.

    A parent may be on another shard. Then ``enqueue_jobs`` does not check it, ``children_to_cancel`` finds its
    children all the same, and whatever ends a child leaves the message for the parent's shard, in the same transaction:
    see ``outgoing_messages``.

    Positions of ``scan_jobs`` may lie between jobs: ``local_id`` 0 is before all jobs of that moment, ``2**63 - 1``
    after them. Positions that it returns need not name the shard.
    """

    name: str
    clock: ShardClock
    """The shard's clock, as known from its readings."""
    on_outgoing: Callable[[Collection[str]], None]
    """Called in the event loop, after a commit that has left messages, with the shards they are for."""

    @property
    def waiting(self) -> int:
        """Write requests that have no result yet."""

    @property
    def connections(self) -> int:
        """Open connections to its server; where shards on one server share connections, all of these."""

    async def ping(self, *, commits: bool = False) -> None:
        """Return if the shard answers, within a second or so.

        With ``commits``, it also has to commit a change. Some accept changes, but wait with the commit for others.
        """

    async def size(self) -> StoreSize:
        """Return how much space the shard takes, and how much it has left."""

    async def read_clock(self) -> float:
        """Read the shard's clock; return how many milliseconds it is ahead of time elapsed here; see ``ShardClock``."""

    async def settings_of_queue(self, queue: str) -> QueueSettings | None:
        """Return the settings of a queue, at the same price however many queues there are; None: it does not exist."""

    async def call_result(self, queue: str, key: bytes) -> CallResult | None:
        """Return the stored result of a call with an idempotency key; None if the shard has none."""

    async def dequeue_jobs(
        self,
        queue: str,
        limit: int,
        claim: Claim,
        *,
        max_bytes: int = MAX_ANSWER_BYTES,
        want_next_due: bool = False,
        max_running: int | None = None,
        levels: int | None = None,
    ) -> Dequeued:
        """Claim jobs as ``Store.dequeue_jobs`` does; with ``levels``, only jobs of priorities 1 to ``levels``."""

    async def due_priorities(self, queues: Sequence[str]) -> dict[str, DuePriorities]:
        """Return which priorities of queues have due jobs; queues that do not exist are left out.

        It takes one query, however many queues are named. A dequeue waits for it if they are ``MOST_READ_TOGETHER`` or
        fewer.

        State: unchanged.
        Repeat: safe.
        """

    async def message_ids(self, jobs: Sequence[JobDescriptor], name: str) -> set[str]:
        """Return the ids of all messages with a name that any of these jobs has."""

    async def outgoing_shards(self) -> set[str]:
        """Return the other shards for which there are messages.

        State: unchanged.
        Repeat: safe.
        """

    async def outgoing_messages(self, shard: str, left_for_ms: int | None = None) -> list[OutgoingMessage]:
        """Return the oldest messages for another shard, as many as that shard takes at once.

        Without ``left_for_ms``, only messages that are not returned to other servers, so that usually one server
        delivers each; with it, those that have been there for that long, whichever server they belong to.

        State: unchanged.
        Repeat: safe; messages that another call has returned may be missing.
        """

    async def deliver_messages(self, messages: Sequence[OutgoingMessage]) -> None:
        """Store messages from another shard; those to jobs that do not exist or have finished are dropped.

        State: as for ``send_message``.
        Fence: name and id of each.
        Repeat: safe.
        """

    async def forget_outgoing(self, shard: str, messages: Sequence[OutgoingMessage]) -> None:
        """Delete messages that have been delivered to their shard.

        State: jobs unchanged.
        Fence: their numbers, which no other messages get.
        Repeat: safe.
        """

    async def acquire_tokens(self, queue: str, rate: float, wanted: int) -> Tokens:
        """Take up to ``wanted`` tokens from a queue's token bucket; a negative number gives tokens back.

        State: jobs unchanged.
        Fence: the bucket is in the store; all servers draw on it.
        Repeat: safe, but costs tokens.
        """

    async def count_running(self, queue: str) -> int:
        """Return how many jobs of a queue run on this shard, however many; ``count_jobs`` stops at ``COUNT_LIMIT``.

        State: unchanged.
        Repeat: safe.
        """

    async def lock_queue(self, queue: str, milliseconds: int) -> int | None:
        """Lock a queue for a while; return the token that unlocks it, or None if it is locked already.

        State: jobs unchanged.
        Fence: the lock, until it expires.
        Repeat: not safe; the first lock stays until it expires.
        """

    async def unlock_queue(self, queue: str, token: int) -> None:
        """Unlock a queue, unless that lock has expired.

        State: jobs unchanged.
        Fence: the token.
        Repeat: safe.
        """

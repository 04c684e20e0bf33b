"""What one shard has to do: the verbs of a store, and what a sharded store asks in addition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import NamedTuple, Protocol

from pinlater.errors import ShardConnectionFailed
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import Message
from pinlater.server.backends.records import MAX_ANSWER_BYTES, Claim, Dequeued, StoreSize
from pinlater.server.backends.sharded.shard_clock import ShardClock
from pinlater.server.backends.store import Store
from pinlater.server.backends.token_bucket import Tokens


class ShardUnreachable(ShardConnectionFailed):
    """Nothing of the call reached the shard, so that it may be sent to another one."""


class ShardFull(ShardUnreachable):
    """The shard answers, but has no room for new jobs, or accepts no changes; nothing was changed."""


class ShardSpec(NamedTuple):
    """A shard, as the file of shards describes it.

    Attributes:
        name: as in descriptors.
        endpoint: address and credentials, in the form of its store; when it changes, the shard is opened again.
        is_dequeue_only: takes no new jobs, so that it can be emptied.
    """

    name: str
    endpoint: Hashable
    is_dequeue_only: bool = False


class CallResult(NamedTuple):
    """The saved result of a call with an idempotency key.

    Attributes:
        number: first id of the new jobs, which have one for each place; or how many jobs were changed.
        elsewhere: of new jobs whose unique key another one had: place in the call, priority and id of that one.
    """

    number: int
    elsewhere: Sequence[tuple[int, int, int]] = ()

    def names(self, head: str, priorities: Iterable[int]) -> list[str]:
        """Return the descriptors of new jobs.

        Args:
            head: of the descriptors: ``queue:s<shard>:p``.
            priorities: of the jobs, in the order of the call.
        """
        names = [f"{head}{priority}:{local_id}" for local_id, priority in enumerate(priorities, self.number)]
        for place, priority, local_id in self.elsewhere:
            names[place] = f"{head}{priority}:{local_id}"
        return names


class DuePriorities(NamedTuple):
    """Which priorities of a queue have due jobs.

    Attributes:
        priorities: those with jobs that are due.
        next_due_ms: when the next job falls due of those that are not.
        first_due_ms: when the first job fell due, or does; None: there is none.
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
    """A message that a shard has for a job of another shard.

    Attributes:
        number: by which the shard knows it.
        job: that it is for.
        message: what it says.
    """

    number: int | str
    job: JobDescriptor
    message: Message


class Shard(Store, Protocol):
    """A store that keeps a part of the jobs of every queue, and answers a few more questions.

    A verb raises ``ShardConnectionFailed`` when the shard does not answer, after its own retries and within 10 s,
    and ``ShardUnreachable`` if nothing was sent; both count against its health, other errors do not, nor does
    ``ShardFull``, which sends new jobs to another shard. A shard keeps its queues by itself, and raises
    ``QueueNotFound`` for those that it does not have; the sharded store knows whether another shard has them. It does
    not connect before its first call.

    A parent may be on another shard. Then ``enqueue_jobs`` does not ask for it, ``unfinished_children`` finds its
    children all the same, and what ends one leaves the message for that shard, in the same transaction: see
    ``outgoing_messages``.

    Positions of ``scan_jobs`` may lie between jobs: ``local_id`` 0 is before all jobs of that moment, ``2**63 - 1``
    behind them. Those that it returns need not name the shard.
    """

    name: str
    clock: ShardClock
    """Its clock, as far as that was read."""
    on_outgoing: Callable[[Collection[str]], None]
    """Called in the event loop, after a commit that has left messages, with the shards that these are for."""

    @property
    def waiting(self) -> int:
        """Write requests that have no result yet."""

    @property
    def connections(self) -> int:
        """Open connections to its server, those of other shards on it included if they are shared."""

    async def ping(self) -> None:
        """Return if the shard answers, within a second or so."""

    async def size(self) -> StoreSize:
        """Return how much space the shard takes, and how much is left for it."""

    async def read_clock(self) -> float:
        """Read the shard's clock; return how far it is ahead of the time elapsed here, see ``ShardClock``."""

    async def call_result(self, queue: str, key: bytes) -> CallResult | None:
        """Return the saved result of a call with an idempotency key; None if the shard knows of none."""

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
        """Claim jobs as ``Store.dequeue_jobs`` does, with ``levels`` only those of priorities up to this one."""

    async def due_priorities(self, queues: Sequence[str]) -> dict[str, DuePriorities]:
        """Return which priorities of queues have due jobs, without queues that do not exist.

        It is one query, however many queues there are.

        State: unchanged.
        Repeat: safe.
        """

    async def message_ids(self, jobs: Sequence[JobDescriptor], name: str) -> set[str]:
        """Return the ids of all messages of a name that some of these jobs have."""

    async def outgoing_shards(self) -> set[str]:
        """Return for which other shards there are messages.

        State: unchanged.
        Repeat: safe.
        """

    async def outgoing_messages(self, shard: str, left_for_ms: int | None = None) -> list[OutgoingMessage]:
        """Return the oldest messages for another shard, as many as that shard takes at once.

        Without ``left_for_ms``, they are not returned to other servers, so that each message is mostly delivered by
        one; with it, they are those that are there for so long, whoever has them.

        State: unchanged.
        Repeat: safe; what another call has returned may be missing.
        """

    async def deliver_messages(self, messages: Sequence[OutgoingMessage]) -> None:
        """Store messages from another shard; those to jobs that are not there or have finished are dropped.

        State: as for ``send_message``.
        Fence: name and id of each.
        Repeat: safe.
        """

    async def forget_outgoing(self, shard: str, messages: Sequence[OutgoingMessage]) -> None:
        """Delete messages that the shard which they are for has.

        State: jobs unchanged.
        Fence: their numbers, which no other messages get.
        Repeat: safe.
        """

    async def acquire_tokens(self, queue: str, rate: float, wanted: int) -> Tokens:
        """Take up to ``wanted`` tokens of a queue's token bucket; below 0, give them back.

        State: jobs unchanged.
        Fence: the bucket is in the store; all servers draw on it.
        Repeat: safe, but costs tokens.
        """

    async def lock_queue(self, queue: str, milliseconds: int) -> int | None:
        """Lock a queue for a while; return the token that unlocks it, None if another server has locked it.

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

"""What one shard has to do: nearly the verbs of the contract, for the jobs that it keeps."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from pinlater.errors import ShardConnectionFailed
from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.records import (
    Ack,
    Checkpoint,
    Claim,
    ClaimedJob,
    Collected,
    Dequeued,
    Expired,
    IdempotencyKey,
    JobFilter,
    JobRecord,
    KeptReport,
    NewJob,
    Page,
    Position,
    QueueChange,
    QueueSettings,
    Settled,
    StoreSize,
)
from pinlater.server.backends.token_bucket import Tokens


class ShardUnreachable(ShardConnectionFailed):
    """Nothing of the call reached the shard, so that it may be made elsewhere."""


class ShardSpec(NamedTuple):
    """A shard as the file of shards has it.

    Attributes:
        name: as in descriptors.
        place: where it is and how to get in, in the form of its store; when it changes, the shard is opened anew.
        is_dequeue_only: takes no new jobs, so that it can be emptied.
    """

    name: str
    place: Hashable
    is_dequeue_only: bool = False


class CallResult(NamedTuple):
    """What a shard did of a call with an idempotency key.

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
    """What a queue has to hand out.

    Attributes:
        priorities: those with jobs that are due.
        next_due_ms: when the next job falls due of those that are not.
    """

    priorities: Sequence[int]
    next_due_ms: int | None

    @classmethod
    def at(cls, now_ms: int, first_due_ms: Sequence[int | None]) -> DuePriorities:
        """Return it, given when the first job of each priority falls due."""
        return cls(
            [priority for priority, due in enumerate(first_due_ms, 1) if due is not None and due <= now_ms],
            min((due for due in first_due_ms if due is not None and due > now_ms), default=None),
        )


class Shard(Protocol):
    """Keeps a part of the jobs of every queue.

    A verb raises ``ShardConnectionFailed`` when the shard does not answer, after its own retries and within 10 s,
    and ``ShardUnreachable`` if nothing was sent; both count against its health, other errors do not. A shard keeps
    its queues by itself, and raises ``QueueNotFound`` for those it does not have; its fleet knows whether another
    shard has them. Nothing connects before it is asked for something.
    """

    name: str

    @property
    def waiting(self) -> int:
        """Write requests that have no result yet."""

    @property
    def connections(self) -> int:
        """Open connections to its server, those of other shards on it included if they are shared."""

    async def ping(self) -> None:
        """Return if the shard answers, within a second or so."""

    async def size(self) -> StoreSize:
        """Return how much the shard takes, and how much is left for it."""

    async def read_clock(self) -> float:
        """Read the shard's clock; return how far it is ahead of the time elapsed here, see ``ShardClock``."""

    async def create_queue(self, queue: str) -> None:
        """See ``Store``; so for all that follow."""

    async def delete_queue(self, queue: str) -> None: ...

    async def queue_names(self) -> set[str]: ...

    async def queue_settings(self) -> dict[str, QueueSettings]: ...

    async def change_queue_settings(self, queue: str, change: QueueChange) -> None: ...

    async def call_result(self, queue: str, key: bytes) -> CallResult | None:
        """Return what it did of a call on a queue; None if it knows nothing of that."""

    async def enqueue_jobs(
        self, queue: str, jobs: Sequence[NewJob], *, once: IdempotencyKey | None = None
    ) -> list[str]: ...

    async def import_jobs(
        self, queue: str, jobs: Sequence[JobRecord], *, once: IdempotencyKey | None = None
    ) -> list[str]: ...

    async def dequeue_jobs(
        self,
        queue: str,
        limit: int,
        claim: Claim,
        *,
        max_bytes: int,
        want_next_due: bool = False,
        max_running: int | None = None,
        levels: int | None = None,
    ) -> Dequeued:
        """See ``Store``; ``levels``: only jobs of priorities up to this one."""

    async def due_priorities(self, queue: str) -> DuePriorities:
        """Return what the queue has to hand out at present."""

    async def acquire_tokens(self, queue: str, rate: float, wanted: int) -> Tokens:
        """Take up to so many tokens of a queue with a rate; below 0, give them back. To repeat it costs tokens only."""

    async def lock_queue(self, queue: str, milliseconds: int) -> int | None:
        """Lock a queue for a while; return the token that unlocks it, None if somebody else has locked it."""

    async def unlock_queue(self, queue: str, token: int) -> None:
        """Unlock a queue, unless that lock has ended by itself."""

    async def peek_jobs(self, queue: str, limit: int, *, max_bytes: int) -> list[ClaimedJob]: ...

    async def ack_dequeued_jobs(self, queue: str, succeeded: Sequence[Ack], failed: Sequence[Ack]) -> Settled: ...

    async def checkpoint_jobs(self, queue: str, checkpoints: Sequence[Checkpoint]) -> Settled: ...

    async def release_claims(self, queue: str, source: str) -> int: ...

    async def lookup_jobs(self, jobs: Sequence[JobDescriptor], *, include_body: bool) -> list[JobRecord | None]: ...

    async def count_jobs(self, queue: str, which: JobFilter) -> int: ...

    async def oldest_due_ms(self, queue: str) -> int | None: ...

    async def first_due(self, queues: Sequence[str]) -> Mapping[str, Sequence[int | None]]:
        """Return when the first PENDING job of each priority falls due, or did, by queue; None if none is PENDING.

        Queues that are not there are left out.
        """

    async def scan_jobs(self, queue: str, which: JobFilter, limit: int, position: Position | None) -> Page:
        """Return the next jobs that match; the positions need not name the shard.

        Positions may lie between jobs: ``local_id`` 0 is before all of that moment, ``2**63 - 1`` behind them.
        """

    async def retry_failed_jobs(
        self,
        queue: str,
        priority: int,
        attempts: int,
        run_after_ms: int | None,
        limit: int,
        *,
        once: IdempotencyKey | None = None,
    ) -> int: ...

    async def delete_jobs(
        self, queue: str, which: JobFilter, limit: int, *, once: IdempotencyKey | None = None
    ) -> int: ...

    async def retry_these_jobs(
        self,
        queue: str,
        jobs: Sequence[JobDescriptor],
        attempts: int,
        run_after_ms: int | None,
        *,
        once: IdempotencyKey | None = None,
    ) -> int: ...

    async def run_jobs_now(
        self, queue: str, jobs: Sequence[JobDescriptor], *, once: IdempotencyKey | None = None
    ) -> int: ...

    async def delete_these_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], state: int, *, once: IdempotencyKey | None = None
    ) -> int: ...

    async def reap_expired(self, limit: int, *, server_age_ms: int, quiet_ms: int) -> list[Expired]: ...

    async def collect_finished(self, succeeded_ttl_ms: int, failed_ttl_ms: int, limit: int) -> list[Collected]: ...

    async def forget_results(self, limit: int) -> int: ...

    async def store_report(self, worker_id: str, report: bytes, keep_ms: int) -> None: ...

    async def reports(self, max_bytes: int) -> list[KeptReport]: ...

    async def close(self) -> None:
        """Finish what was submitted, as far as the shard answers, and let go of it."""

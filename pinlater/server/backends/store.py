"""What a store has to do: one verb per Thrift verb, in batches, written as state before -> state after.

The rules of the calls (validation, limits, defaults, rate limits) are the service's, above; a backend may
rely on them. Every verb that names a queue raises ``QueueNotFound`` when there is none. All times are
milliseconds since the epoch by the store's own clock. All verbs are atomic: done whole or not at all. Whatever a verb
returns is committed.

A verb that takes ``once`` keeps its result under that key, in the transaction of the change. The same call with the
same key again, also on another server and at the same time, returns that result and changes nothing; one with a limit
does what the first left undone, and returns how many both have changed. Without a key it is not safe to repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.records import (
    MAX_ANSWER_BYTES,
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
from pinlater.server.metrics.shard_state import ShardState


class PollIntervals(NamedTuple):
    """Seconds between two polls of a queue that dequeues wait for: while jobs come, and when none has come for long."""

    shortest: float
    longest: float


FREQUENT_POLLS = PollIntervals(0.02, 1.5)
"""For stores that do not announce new jobs."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store does beyond, or short of, the common contract.

    Attributes:
        name: of the store, for people.
        is_serial: claims see every enqueue that was submitted before them, so that a waiting dequeue can be
            served in the transaction that stores the job; nobody else writes to the store.
        poll_intervals: how often to poll for jobs that were not announced.
    """

    name: str
    is_serial: bool
    poll_intervals: PollIntervals


class Store(Protocol):
    """A store of jobs."""

    capabilities: Capabilities

    @property
    def shards(self) -> int:
        """How many parts the jobs are spread over; 1 for a store that has none."""

    async def create_queue(self, queue: str) -> None:
        """No queue -> an empty queue; a queue -> itself."""

    async def delete_queue(self, queue: str) -> None:
        """A queue with all its jobs -> none; none -> none."""

    async def queue_names(self) -> set[str]:
        """Return the names of all queues."""

    async def queue_settings(self) -> dict[str, QueueSettings]:
        """Return the settings of all queues."""

    async def change_queue_settings(self, queue: str, change: QueueChange) -> None:
        """Change settings. They stay until the queue is deleted."""

    async def enqueue_jobs(
        self, queue: str, jobs: Sequence[NewJob], *, once: IdempotencyKey | None = None
    ) -> list[str]:
        """Nothing -> PENDING. Return descriptors in the order of ``jobs``.

        While a job of the queue with the same ``unique_key`` is PENDING or IN_PROGRESS, be it stored by this very call,
        a job is not stored, and has the descriptor of that one. A job keeps its key until it is SUCCEEDED or FAILED,
        then it is forgotten: retried by hand, it is a job without a key. Keys are 1 to ``MAX_UNIQUE_KEY_CHARACTERS``
        characters without NUL, and compared character by character.
        """

    async def import_jobs(
        self, queue: str, jobs: Sequence[JobRecord], *, once: IdempotencyKey | None = None
    ) -> list[str]:
        """Nothing -> the state that a job had in another store, with its history; IN_PROGRESS -> PENDING.

        The descriptors' priorities are kept, and the order (run_after, as given). Unique keys are as in
        ``enqueue_jobs``.
        """

    async def dequeue_jobs(
        self,
        queue: str,
        limit: int,
        claim: Claim,
        *,
        max_bytes: int = MAX_ANSWER_BYTES,
        want_next_due: bool = False,
        max_running: int | None = None,
    ) -> Dequeued:
        """PENDING and due -> IN_PROGRESS under ``claim``, up to ``limit`` jobs and ``max_bytes``, but at least one.

        What is returned is committed. If it is unknown whether the commit succeeded, the call raises, and the store
        makes the jobs PENDING again, no attempt spent, as soon as it can.
        Never more than bring the queue's IN_PROGRESS jobs to ``max_running``, whoever claimed them.
        """

    async def peek_jobs(self, queue: str, limit: int, *, max_bytes: int = MAX_ANSWER_BYTES) -> list[ClaimedJob]:
        """Return what a dequeue would hand out; change nothing."""

    async def ack_dequeued_jobs(self, queue: str, succeeded: Sequence[Ack], failed: Sequence[Ack]) -> Settled:
        """IN_PROGRESS -> SUCCEEDED; or PENDING after the delay, one attempt less; or FAILED at the last.

        Safe to repeat, but for failures without a claim: those would end the attempt of the next holder.
        """

    async def checkpoint_jobs(self, queue: str, checkpoints: Sequence[Checkpoint]) -> Settled:
        """IN_PROGRESS -> IN_PROGRESS with a new lease, or PENDING, no attempt spent.

        Safe to repeat, where each of them ``is_repeatable``.
        """

    async def release_claims(self, queue: str, source: str) -> int:
        """IN_PROGRESS under any claim of ``source`` -> PENDING, no attempt spent. Return how many."""

    async def lookup_jobs(self, jobs: Sequence[JobDescriptor], *, include_body: bool) -> list[JobRecord | None]:
        """Return the records in the order of ``jobs``; None for those not there."""

    async def count_jobs(self, queue: str, which: JobFilter) -> int:
        """Return how many jobs match, counting up to a bound per priority."""

    async def oldest_due_ms(self, queue: str) -> int | None:
        """Return since when the job is due that has been so for longest, whatever its priority; None if none is."""

    async def first_due(self, queues: Sequence[str]) -> dict[str, int | None]:
        """Return when the first PENDING job of each queue falls due, or did; None if none is PENDING.

        Queues that do not exist are left out. It is one query, however many queues there are.
        """

    async def scan_jobs(self, queue: str, which: JobFilter, limit: int, position: Position | None) -> Page:
        """Return the next jobs that match, latest run_after first."""

    async def retry_failed_jobs(
        self,
        queue: str,
        priority: int,
        attempts: int,
        run_after_ms: int | None,
        limit: int,
        *,
        once: IdempotencyKey | None = None,
    ) -> int:
        """FAILED -> PENDING with ``attempts`` remaining, the oldest first. Return how many.

        Done in steps, so that other calls are served in between. A job is changed by one call only, so less than the
        limit means that no more jobs match.
        """

    async def delete_jobs(self, queue: str, which: JobFilter, limit: int, *, once: IdempotencyKey | None = None) -> int:
        """Matching jobs -> gone. Return how many; see ``retry_failed_jobs``."""

    async def retry_these_jobs(
        self,
        queue: str,
        jobs: Sequence[JobDescriptor],
        attempts: int,
        run_after_ms: int | None,
        *,
        once: IdempotencyKey | None = None,
    ) -> int:
        """Those of ``jobs`` that are FAILED -> PENDING with ``attempts`` remaining. Return how many."""

    async def run_jobs_now(
        self, queue: str, jobs: Sequence[JobDescriptor], *, once: IdempotencyKey | None = None
    ) -> int:
        """Those of ``jobs`` that are PENDING and not due -> due now, all else as it was. Return how many."""

    async def delete_these_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], state: int, *, once: IdempotencyKey | None = None
    ) -> int:
        """Those of ``jobs`` that are in ``state`` -> gone. Return how many."""

    async def reap_expired(self, limit: int, *, server_age_ms: int, quiet_ms: int) -> list[Expired]:
        """IN_PROGRESS with an expired claim -> PENDING, one attempt less, or FAILED at the last.

        While the server is younger than ``quiet_ms``, claims whose lease is longer than its age are spared:
        their holders had no time yet to renew them. What expires after the call was made is spared, too, however late
        it is carried out: this server may have stood still meanwhile.
        """

    async def collect_finished(self, succeeded_ttl_ms: int, failed_ttl_ms: int, limit: int) -> list[Collected]:
        """SUCCEEDED and FAILED since longer than the given times -> gone, up to ``limit`` of each."""

    async def forget_results(self, limit: int) -> int:
        """Results of calls with an idempotency key that were kept long enough -> gone, up to ``limit``.

        Return how many; 0 where the store forgets them by itself.
        """

    async def store_report(self, worker_id: str, report: bytes, keep_ms: int) -> None:
        """Any report of a worker -> this one, for ``keep_ms``; 0: none. Some that have expired are removed on the way.

        Ids are 1 to ``MAX_WORKER_ID_CHARACTERS`` characters without NUL, and compared character by character. Safe to
        repeat. A report is lost when its shard is; there will be another one.
        """

    async def reports(self, max_bytes: int = MAX_ANSWER_BYTES) -> list[KeptReport]:
        """Return the reports that have not expired, one of a worker; those first that expire last.

        No more than ``MAX_REPORTS``, nor than have ``max_bytes`` in all.
        """

    async def close(self) -> None:
        """Finish what was submitted and let go of the store."""


class ObservedStore(Store, Protocol):
    """A store, and what a server shows of it."""

    @property
    def waiting(self) -> int:
        """Write requests that have no result yet."""

    @property
    def unhealthy_shards(self) -> int:
        """How many shards are left alone because they do not answer."""

    @property
    def fault(self) -> str | None:
        """Why no new jobs are taken; None if they are."""

    def shard_states(self) -> list[ShardState]:
        """Return how each shard is."""

    async def sizes(self) -> dict[str, StoreSize]:
        """Return how much each shard takes, as far as they answer; raises what the store raises if none does."""

    async def ping_shards(self) -> dict[str, str]:
        """Ask every shard whether it answers, and return what is wrong with those that do not, by name."""

"""The contract of a store: one verb for each call that reads or changes jobs, in batches.

The service, one layer up, applies the rules of the calls (validation, limits, defaults, rate limits); a store relies on
them. These hold for every verb:

- It is atomic on a shard, or its steps are if its docstring says "in steps". Whatever it returns is committed.
- It raises ``QueueNotFound`` if the queue that it names does not exist.
- Times are epoch milliseconds by the store's own clock.
- A docstring says what becomes of a job (**State**: before -> after), what keeps a late or foreign caller from changing
  it (**Fence**), and whether the same call may be made again when its answer was lost (**Repeat**). A verb whose
  docstring has none of these only reads: it changes no job and may be repeated.

``once`` is an idempotency key. The store saves the call's result under it, in the transaction of the change. If the
call is sent again with the same key, even to another server or at the same time, it returns that result and changes
nothing; a call with a limit does what the first one left undone, and returns how many jobs both have changed. Without a
key, such a call is not safe to repeat.

A job may have a ``key``, which says how many of the queue's jobs with this key may run at once. Some of them are *let
through*; the others are PENDING, with ``WAITS_FOR_KEY_MS`` added to their ``run_after``, so no claim finds them. Each
verb that adds, claims, ends or removes jobs of a key lets through those whose turn it is, in the same transaction;
``key_turns.turns`` says which. All jobs of a key are on one shard.

A job has messages: those that were sent to it, and one from each *child* that has ended. A child is a job that was
stored with this job as its ``parent``. Messages are stored and deleted with their job. They change its state only if it
*sleeps* (PENDING with ``waits_for``, which a claim clears): it falls due when one of its waits is fulfilled. Whatever
ends a child (an ack, the end of its lease, a cancellation, its deletion) stores the message to its parent in the same
transaction, once for each name and id; a parent that does not exist or has finished gets none. After the commit, the
store passes the jobs that messages have made due to ``notifications.on_claimable``.

A job whose attempt failed, by an ack that says how or because its lease expired, belongs to the *failure group* of that
failure until it succeeds, is cancelled or retried by hand, or a checkpoint gives it new attempts. A store keeps what
the failures of a group have in common, for at most ``MOST_GROUPS`` groups per queue; all other failures are in the
group ``OTHER_ERRORS``. It deletes groups that have been empty for long.

A job that is IN_PROGRESS may be *asked to stop*. From then on, whatever would make it PENDING (an ack, a checkpoint,
the end of its lease, the release of its claim) makes it FAILED and marked as cancelled instead, unless its body shows
that it has something to undo. It can still succeed. Retrying the job by hand removes the mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pinlater.errors import EnqueueRejected, QueueNotFound
from pinlater.model.attempts import DequeuedJob, StoredAck, StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import FailureGroup
from pinlater.model.jobs import JobRecord, NewJob, Position, RecordPage
from pinlater.model.messages import Message, ReceivedMessage
from pinlater.model.queues import QueueChange, QueueSettings
from pinlater.server.backends.poll_intervals import PollIntervals
from pinlater.server.backends.records import (
    MAX_ANSWER_BYTES,
    Cancelled,
    Claim,
    Collected,
    Dequeued,
    Expired,
    JobFilter,
    Once,
    Settled,
)
from pinlater.server.backends.report_store import ReportStore
from pinlater.server.backends.statistics import StatisticsStore


def queue_not_found(queue: str) -> QueueNotFound:
    """Return the error for a queue that does not exist."""
    return QueueNotFound(f"there is no queue {queue!r}; create it first (pinlater create-queue {queue})")


def parent_refused(parent: str) -> EnqueueRejected:
    """Return the error for a job whose parent cannot get any more children."""
    return EnqueueRejected(
        f"job {parent}, the parent of a new job, is not there, has finished or is asked to stop, so nothing was stored"
    )


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store does beyond, or short of, the common contract.

    Attributes:
        name: the store's name, for people.
        is_serial: claims see every enqueue that was submitted before them, so that a waiting dequeue can be
            served in the transaction that stores the job; no other server writes to the store.
        poll_intervals: how often to poll for jobs that were not announced.
    """

    name: str
    is_serial: bool
    poll_intervals: PollIntervals


class Store(ReportStore, StatisticsStore, Protocol):
    """A store of jobs: the verbs, each declared once. A single shard is a store, and so are all shards together."""

    # Queues

    async def create_queue(self, queue: str) -> None:
        """Create a queue.

        State: no queue -> an empty queue; a queue -> unchanged.
        Repeat: safe.
        """

    async def delete_queue(self, queue: str) -> None:
        """Delete a queue with all its jobs.

        State: any, IN_PROGRESS included -> gone.
        Fence: none.
        Repeat: safe; no queue -> no queue.
        """

    async def queue_names(self) -> set[str]:
        """Return the names of all queues."""

    async def queue_settings(self) -> dict[str, QueueSettings]:
        """Return the settings of all queues."""

    async def change_queue_settings(self, queue: str, change: QueueChange) -> None:
        """Change settings of a queue; they last until it is deleted.

        State: jobs unchanged.
        Fence: none; the last change counts.
        Repeat: safe.
        """

    # New jobs

    async def enqueue_jobs(self, queue: str, jobs: Sequence[NewJob], *, once: Once = None) -> list[str]:
        """Store new jobs; return their descriptors in the order of ``jobs``.

        State: none -> PENDING.
        Fence: ``parent``. If it does not exist, has finished or is asked to stop, nothing is stored, and the call
            raises ``EnqueueRejected``.
            ``unique_key``. While a job of the queue with the same key is PENDING or IN_PROGRESS, even one stored by
            this very call, the new job is not stored, and the descriptor of the existing one is returned. A job holds
            its key until it is SUCCEEDED or FAILED; if it is then retried by hand, it has no key any more. Keys are
            1 to ``MAX_UNIQUE_KEY_CHARACTERS`` characters without NUL, and compared character by character.
            ``unique_rule.until_started``: a job that was ever claimed gives up its key to the new one, for good.
            ``unique_rule.period_ms``: the key also stays taken for this long from the enqueue: the descriptor of the
            job is returned even if it has started, finished or been collected, but not if it was deleted before it
            finished.
            ``unique_rule.on_duplicate``: a job with the key that was never claimed gets the body, attempts and status
            of the new one; with ``DEBOUNCE`` also its time, but not one in the past, and at most ``max_delay_ms`` after
            the existing job was stored.
        Repeat: safe with ``once``.
        """

    async def import_jobs(self, queue: str, jobs: Sequence[JobRecord], *, once: Once = None) -> list[str]:
        """Store copies of another store's jobs, with their history; return their new descriptors.

        State: none -> the state that each job had; IN_PROGRESS -> PENDING, or FAILED if it is asked to stop and has
            nothing to undo. Priority and order (run_after, then as given) are preserved.
        Fence: ``unique_key``, as in ``enqueue_jobs``.
        Repeat: safe with ``once``.
        """

    # Claimed jobs

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
        """Claim up to ``limit`` due jobs that fit into ``max_bytes``, but at least one, highest priority first.

        State: PENDING and due -> IN_PROGRESS under ``claim`` until its lease expires.
        Fence: a job goes to one claim only. The queue never has more than ``max_running`` jobs IN_PROGRESS, whoever
            claimed them.
        Repeat: not safe; a second call claims more jobs. If it is unknown whether the commit succeeded, the call
            raises, and the store makes the jobs PENDING again as soon as it can, without spending an attempt.
        """

    async def peek_jobs(self, queue: str, limit: int, *, max_bytes: int = MAX_ANSWER_BYTES) -> list[DequeuedJob]:
        """Return the jobs that a dequeue would claim, without claiming them."""

    async def ack_dequeued_jobs(
        self, queue: str, succeeded: Sequence[StoredAck], failed: Sequence[StoredAck]
    ) -> Settled:
        """End the attempt of claimed jobs; return how many were changed, and how many acks were stale.

        State: IN_PROGRESS -> SUCCEEDED with the result; or PENDING, due after the retry delay, with one attempt less;
            or FAILED if that was the last attempt or the ack is final, and marked as cancelled if the ack says so.
            A failed job is in the group of ``failure``.
        Fence: the ack's claim, if it has one; otherwise only the state. A stale ack changes nothing.
        Repeat: safe, except for failures without a claim: those would end the attempt of the next holder.
        """

    async def checkpoint_jobs(self, queue: str, checkpoints: Sequence[StoredCheckpoint]) -> Settled:
        """Renew the leases of claimed jobs, save progress, or give jobs back.

        State: IN_PROGRESS -> IN_PROGRESS with a new lease; or PENDING, without spending an attempt; with ``waits_for``,
            it sleeps until ``run_after_ms`` or one of these waits is fulfilled, and is due at once if one already is.
            ``keeps`` are stored as messages to it; up to ``MAX_DROPPED`` of each name in ``drops`` are deleted.
        Fence: the checkpoint's claim, or without one, the source of the present claim. Jobs that another claim holds
            are returned as ``lost``, unless they were to be given back.
        Repeat: safe if each of the checkpoints ``is_repeatable``.
        """

    async def cancel_jobs(self, queue: str, jobs: Sequence[JobDescriptor], status: str) -> Cancelled:
        """Cancel jobs in steps and append ``status`` to theirs; return which were cancelled or asked to stop.

        State: PENDING -> FAILED, marked as cancelled; IN_PROGRESS, or PENDING with something to undo -> the same, but
            asked to stop, and due if PENDING; finished -> unchanged. A job that may have children stays among the
            ``children_to_cancel`` of its parent until ``finish_cancellation``.
        Fence: the state. The status is appended once, by the first call that cancels the job or asks it to stop.
        Repeat: safe.
        """

    async def finish_cancellation(self, queue: str, jobs: Sequence[JobDescriptor]) -> None:
        """Take cancelled jobs off the ``children_to_cancel`` of their parents, since none of their own are left.

        State: unchanged.
        Fence: a job that is not marked as cancelled stays where it is.
        Repeat: safe.
        """

    async def release_claims(self, queue: str, source: str) -> int:
        """Give back all jobs of the queue that a source has claimed, in steps; return how many.

        State: IN_PROGRESS -> PENDING, without spending an attempt.
        Fence: the source of the present claim.
        Repeat: safe, as long as the source claims nothing in between.
        """

    # Messages

    async def send_message(self, job: JobDescriptor, message: Message) -> bool:
        """Store a message to a job; return False if the job does not exist or has finished.

        State: asleep and one of its waits is now fulfilled -> PENDING and due; otherwise unchanged.
        Fence: name and id; a second message with the same two changes nothing.
        Repeat: safe.
        """

    async def read_messages(
        self, job: JobDescriptor, name: str, after: int, limit: int, max_bytes: int = MAX_ANSWER_BYTES
    ) -> list[ReceivedMessage]:
        """Return up to ``limit`` messages of a job with that name whose number is larger than ``after``, in order.

        All fit into ``max_bytes`` together, except that the first is always returned.
        """

    async def children_to_cancel(self, parents: Sequence[JobDescriptor], limit: int) -> list[JobDescriptor]:
        """Return up to ``limit`` children of these jobs, in any queue, that have to be cancelled with them.

        Those run or wait and were not asked to stop, or are cancelled and their own children may not all be.
        """

    # Reads

    async def lookup_jobs(
        self, jobs: Sequence[JobDescriptor], *, body_bytes: int = 0, include_result: bool = False
    ) -> list[JobRecord | None]:
        """Return the records in the order of ``jobs``, with up to ``body_bytes`` of each body; None: no such job."""

    async def count_jobs(self, queue: str, which: JobFilter) -> int:
        """Count the jobs that match, up to a limit for each priority; a ``PartialCount`` if shards are missing."""

    async def states_in_use(self) -> dict[str, set[int]]:
        """Return in which states each queue has jobs, without counting them.

        The result has all queues, including those without jobs. It is one query, however many queues there are.
        """

    async def first_due(self, queues: Sequence[str]) -> dict[str, int | None]:
        """Return when the first PENDING job of each queue falls or fell due; None if none is PENDING.

        Queues that do not exist are left out. It is one query, however many queues there are.
        """

    async def scan_jobs(
        self, queue: str, which: JobFilter, limit: int, position: Position | None, *, oldest_first: bool = False
    ) -> RecordPage:
        """Return the next page of matching jobs, without bodies, latest run_after first by default; see BodyWalk."""

    async def failure_groups(self, queues: Sequence[str], limit: int) -> list[FailureGroup]:
        """Return up to ``limit`` failure groups that have jobs, the largest first; without names, of all queues.

        A store may consider only the ``MOST_READ`` groups with the latest failures; counts stop at ``MOST_COUNTED``.
        """

    # Changes by operators

    async def retry_failed_jobs(
        self, queue: str, priority: int, attempts: int, run_after_ms: int | None, limit: int, *, once: Once = None
    ) -> int:
        """Retry up to ``limit`` failed jobs of a priority, the oldest first; return how many.

        This is done in steps, each in its own transaction, so that other calls are served in between. A result below
        the limit means that no more jobs match.

        State: FAILED -> PENDING with ``attempts`` attempts, no longer marked as cancelled.
        Fence: the state; a job is changed by one call only.
        Repeat: safe with ``once``.
        """

    async def delete_jobs(self, queue: str, which: JobFilter, limit: int, *, once: Once = None) -> int:
        """Delete up to ``limit`` jobs that match, in steps like ``retry_failed_jobs``; return how many.

        State: the filter's state -> gone.
        Fence: the state; a job is deleted by one call only.
        Repeat: safe with ``once``.
        """

    async def retry_these_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], attempts: int, run_after_ms: int | None, *, once: Once = None
    ) -> int:
        """Retry those of ``jobs`` that have failed; return how many.

        State: FAILED -> PENDING with ``attempts`` attempts, no longer marked as cancelled.
        Fence: the state.
        Repeat: safe with ``once``.
        """

    async def schedule_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], run_after_ms: int | None, *, once: Once = None
    ) -> int:
        """Change when those of ``jobs`` that are PENDING fall due; return how many were changed.

        State: PENDING -> PENDING, due at ``run_after_ms``; with None, PENDING and not due -> due. Nothing else changes;
            a job that waits for its ordered key keeps its place.
        Fence: the state.
        Repeat: safe with ``once``.
        """

    async def delete_these_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], state: int, *, once: Once = None
    ) -> int:
        """Delete those of ``jobs`` that are in ``state``, in steps; return how many.

        State: ``state`` -> gone.
        Fence: the state.
        Repeat: safe with ``once``.
        """

    # Maintenance by the monitor

    async def reap_expired(
        self, limit: int, *, server_age_ms: int, quiet_ms: int, asked_at: float | None = None
    ) -> list[Expired]:
        """End up to ``limit`` claims whose lease has expired, in steps; return how many of each queue.

        State: IN_PROGRESS -> PENDING with one attempt less, or FAILED if that was the last.
        Fence: the lease. While the server is younger than ``quiet_ms``, claims whose lease is longer than its age are
            left alone: their holders have not had time to renew them. So are claims that expire after ``asked_at``
            (seconds, see ``clock.elapsed_seconds``; None: when the call was made), however late the call is carried
            out: this server may have stood still meanwhile.
        Repeat: safe.
        """

    async def collect_finished(self, succeeded_ttl_ms: int, failed_ttl_ms: int, limit: int) -> list[Collected]:
        """Delete in steps jobs that have been finished for longer than the given times, up to ``limit`` of each state.

        State: SUCCEEDED or FAILED -> gone.
        Fence: the state.
        Repeat: safe.
        """

    async def forget_results(self, limit: int) -> int:
        """Delete expired results of calls with an idempotency key, ended periods of unique keys, empty failure groups.

        Up to ``limit`` of each kind are deleted. Return how many, not counting those that the store itself expires.

        State: jobs unchanged.
        Repeat: safe.
        """

    async def close(self) -> None:
        """Wait until all submitted requests are done, then close the store."""

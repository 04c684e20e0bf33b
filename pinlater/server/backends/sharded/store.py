"""Several shards as one store."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from pinlater.errors import QueueNotFound, ServiceError, ShardConnectionFailed
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import IN_PROGRESS, PENDING
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
from pinlater.server.backends.sharded import by_descriptor, limited_changes, limits, placement, reports, scan
from pinlater.server.backends.sharded.claim import DequeueOptions, ShardClaimer
from pinlater.server.backends.sharded.fan_out import Call, ask_all
from pinlater.server.backends.sharded.shard import Shard, ShardSpec
from pinlater.server.backends.sharded.shard_handle import OnCall, ShardHandle
from pinlater.server.backends.sharded.shard_registry import ShardRegistry
from pinlater.server.backends.sharded.store_clock import StoreClock
from pinlater.server.backends.store import FREQUENT_POLLS, Capabilities, PollIntervals
from pinlater.server.backends.token_bucket import Tokens
from pinlater.server.metrics.shard_state import ShardState

_T = TypeVar("_T")

log = logging.getLogger(__name__)

CLOCK_SECONDS = 5.0
"""The shards' clocks are looked at so often."""


class ShardedStore:
    """Jobs spread over shards.

    A batch of new jobs goes to one shard, taken at random; jobs with a unique key go where the key says. What names a
    job goes to the job's shard. A dequeue looks which priorities the shards have, and asks those with the first one, in
    random order, then those with the second, until it has enough. Everything else is asked of all shards, and what they
    say is put together; a shard that does not answer is left out then, and left alone for a while.

    Make it within the event loop that is to use it, then ``update`` it.

    Args:
        name: of the kind of store, for people.
        make: makes a shard, which must not connect before it is asked for something.
        poll_intervals: see ``Capabilities``.
        on_call: is told of each call to a shard.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[ShardSpec], Shard],
        *,
        poll_intervals: PollIntervals = FREQUENT_POLLS,
        on_call: OnCall = lambda _name, _seconds, *, is_answered: None,  # noqa: ARG005 - the name is part of the call
    ) -> None:
        self.capabilities = Capabilities(name=name, is_serial=False, poll_intervals=poll_intervals)
        self._registry = ShardRegistry(make, on_call)
        self._claimer = ShardClaimer(self._registry, self._ask_owner)
        self._deleting: Counter[str] = Counter()
        self._tells_time = True

    def update(self, specs: Sequence[ShardSpec]) -> None:
        """Put another set of shards into force; those that stay as they are notice nothing."""
        self._registry.update(specs)

    @property
    def waiting(self) -> int:
        """Write requests that have no result yet."""
        return sum(handle.shard.waiting for handle in self._registry)

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return len(self._registry)

    @property
    def unhealthy_shards(self) -> int:
        """How many shards are left alone because they did not answer."""
        return sum(not handle.is_healthy for handle in self._registry)

    @property
    def fault(self) -> str | None:
        """Why no new jobs are taken; None if they are."""
        if not self.shards or self.unhealthy_shards < self.shards:
            return None
        reason = next((handle.state.error for handle in self._registry if handle.state.error), "")
        return f"no shard of the store answers: {reason}".removesuffix(": ")

    def shard_states(self) -> list[ShardState]:
        """Return how each shard is."""
        return [handle.state for handle in self._registry]

    async def sizes(self) -> dict[str, StoreSize]:
        """Return how much each shard takes, of those that answer."""
        return {
            handle.name: size for handle, size in await ask_all(self._registry.healthy(), lambda shard: shard.size())
        }

    async def ping_shards(self) -> dict[str, str]:
        """Ask every shard whether it answers, and return what is wrong with those that do not, by name."""
        handles = list(self._registry)
        results = await asyncio.gather(*(handle.shard.ping() for handle in handles), return_exceptions=True)
        failed: dict[str, str] = {}
        for handle, result in zip(handles, results, strict=True):
            if isinstance(result, ServiceError):
                failed[handle.name] = str(result)
            elif isinstance(result, BaseException):
                raise result
        return failed

    # Queues

    async def create_queue(self, queue: str) -> None:
        """Make the queue on every shard that answers; the others get it with its first job there."""
        await ask_all(self._registry, lambda shard: shard.create_queue(queue))

    async def delete_queue(self, queue: str) -> None:
        """Delete the queue from every shard.

        Raises:
            ShardConnectionFailed: not every shard answered; the deletion has to be repeated.
        """
        self._deleting[queue] += 1
        try:
            handles = list(self._registry)
            deleted = await ask_all(handles, lambda shard: shard.delete_queue(queue))
        finally:
            self._deleting -= Counter([queue])
        left = sorted({handle.name for handle in handles} - {handle.name for handle, _ in deleted})
        if left:
            raise ShardConnectionFailed(
                f"queue {queue} is still on shard {', '.join(left)}, which does not answer; delete it again later"
            )

    async def queue_names(self) -> set[str]:
        answers = await ask_all(self._registry.healthy(), lambda shard: shard.queue_names())
        return set().union(*(names for _, names in answers))

    async def queue_settings(self) -> dict[str, QueueSettings]:
        return await limits.settings_of_all(self._registry.healthy())

    async def change_queue_settings(self, queue: str, change: QueueChange) -> None:
        await limits.change_everywhere(list(self._registry), queue, change)

    async def acquire_tokens(self, queue: str, rate: float, wanted: int) -> Tokens:
        """Take up to so many tokens of a queue with a rate; below 0, give them back.

        Raises:
            QueueNotFound: there is no such queue.
            NoHealthyShards: no shard answers.
        """
        return await limits.acquire_tokens(self._registry.healthy(), queue, rate, wanted)

    # The life of jobs

    async def enqueue_jobs(
        self, queue: str, jobs: Sequence[NewJob], *, once: IdempotencyKey | None = None
    ) -> list[str]:
        given = placement.NewJobs(queue, jobs, [job.priority for job in jobs], [job.unique_key for job in jobs], once)

        def call(handle: ShardHandle, some: Sequence[NewJob], part: IdempotencyKey | None) -> Awaitable[list[str]]:
            return self._ask_owner(handle, queue, lambda shard: shard.enqueue_jobs(queue, some, once=part))

        with self._claimer.due_priorities.changing(queue):
            return await placement.store(self._registry, given, call)

    async def import_jobs(
        self, queue: str, jobs: Sequence[JobRecord], *, once: IdempotencyKey | None = None
    ) -> list[str]:
        priorities = [JobDescriptor.parse(job.descriptor).priority for job in jobs]
        keys = [job.unique_key if job.state in {PENDING, IN_PROGRESS} else None for job in jobs]
        given = placement.NewJobs(queue, jobs, priorities, keys, once)

        def call(handle: ShardHandle, some: Sequence[JobRecord], part: IdempotencyKey | None) -> Awaitable[list[str]]:
            return self._ask_owner(handle, queue, lambda shard: shard.import_jobs(queue, some, once=part))

        with self._claimer.due_priorities.changing(queue):
            return await placement.store(self._registry, given, call)

    async def _ask_owner(self, handle: ShardHandle, queue: str, call: Call[_T]) -> _T:
        try:
            return await handle.ask(call)
        except QueueNotFound:
            if not await self._is_elsewhere(queue, handle):
                raise
        log.info("shard %s did not have queue %s yet", handle.name, queue)
        await handle.ask(lambda shard: shard.create_queue(queue))
        return await handle.ask(call)

    async def _is_elsewhere(self, queue: str, handle: ShardHandle) -> bool:
        """Whether a shard lacks a queue because it is new, or was ill when the queue was made."""
        others = [other for other in self._registry.healthy() if other is not handle]
        if not others or self._deleting[queue]:
            return False
        answers = await ask_all(others, lambda shard: shard.queue_names())
        return any(queue in names for _, names in answers) and not self._deleting[queue]

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
        return await self._claimer.dequeue(DequeueOptions(queue, limit, claim, max_bytes, want_next_due, max_running))

    async def peek_jobs(self, queue: str, limit: int, *, max_bytes: int = MAX_ANSWER_BYTES) -> list[ClaimedJob]:
        return await self._claimer.peek(queue, limit, max_bytes)

    async def ack_dequeued_jobs(self, queue: str, succeeded: Sequence[Ack], failed: Sequence[Ack]) -> Settled:
        settled = await by_descriptor.ack(self._registry, queue, succeeded, failed)
        if failed:
            self._claimer.due_priorities.invalidate(queue)
        return settled

    async def checkpoint_jobs(self, queue: str, checkpoints: Sequence[Checkpoint]) -> Settled:
        settled = await by_descriptor.checkpoint(self._registry, queue, checkpoints)
        if settled.due_ms is not None:
            self._claimer.due_priorities.invalidate(queue)
        return settled

    async def release_claims(self, queue: str, source: str) -> int:
        with self._claimer.due_priorities.changing(queue):
            return await self._sum(lambda shard: shard.release_claims(queue, source))

    # Looking

    async def lookup_jobs(self, jobs: Sequence[JobDescriptor], *, include_body: bool) -> list[JobRecord | None]:
        return await by_descriptor.lookup(self._registry, jobs, include_body=include_body)

    async def count_jobs(self, queue: str, which: JobFilter) -> int:
        return await self._sum(lambda shard: shard.count_jobs(queue, which))

    async def oldest_due_ms(self, queue: str) -> int | None:
        answers = await ask_all(self._registry.healthy(), lambda shard: shard.oldest_due_ms(queue))
        return min((due_ms for _, due_ms in answers if due_ms is not None), default=None)

    async def first_due(self, queues: Sequence[str]) -> dict[str, int | None]:
        found: dict[str, int | None] = {}
        for _, due_priorities in await ask_all(self._registry.healthy(), lambda shard: shard.first_due(queues)):
            for queue, dues in due_priorities.items():
                known = [due for due in (found.get(queue), *dues) if due is not None]
                found[queue] = min(known, default=None)
        return found

    async def scan_jobs(self, queue: str, which: JobFilter, limit: int, position: Position | None) -> Page:
        pages = await ask_all(
            self._registry.healthy(),
            lambda shard: shard.scan_jobs(queue, which, limit, scan.start_of(shard.name, position)),
        )
        return scan.merge([page for _, page in pages], limit)

    async def _sum(self, call: Call[int]) -> int:
        return sum(number for _, number in await ask_all(self._registry.healthy(), call))

    # By hand and by the monitor

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
        with self._claimer.due_priorities.changing(queue):
            return await limited_changes.up_to(
                self._registry,
                limited_changes.ChangeLimit(queue, limit, once),
                lambda shard, left: shard.retry_failed_jobs(queue, priority, attempts, run_after_ms, left, once=once),
            )

    async def delete_jobs(self, queue: str, which: JobFilter, limit: int, *, once: IdempotencyKey | None = None) -> int:
        return await limited_changes.up_to(
            self._registry,
            limited_changes.ChangeLimit(queue, limit, once),
            lambda shard, left: shard.delete_jobs(queue, which, left, once=once),
        )

    async def retry_these_jobs(
        self,
        queue: str,
        jobs: Sequence[JobDescriptor],
        attempts: int,
        run_after_ms: int | None,
        *,
        once: IdempotencyKey | None = None,
    ) -> int:
        with self._claimer.due_priorities.changing(queue):
            return await by_descriptor.count(
                self._registry,
                jobs,
                lambda shard, own: shard.retry_these_jobs(queue, own, attempts, run_after_ms, once=once),
            )

    async def run_jobs_now(
        self, queue: str, jobs: Sequence[JobDescriptor], *, once: IdempotencyKey | None = None
    ) -> int:
        with self._claimer.due_priorities.changing(queue):
            return await by_descriptor.count(
                self._registry, jobs, lambda shard, own: shard.run_jobs_now(queue, own, once=once)
            )

    async def delete_these_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], state: int, *, once: IdempotencyKey | None = None
    ) -> int:
        return await by_descriptor.count(
            self._registry, jobs, lambda shard, own: shard.delete_these_jobs(queue, own, state, once=once)
        )

    async def reap_expired(self, limit: int, *, server_age_ms: int, quiet_ms: int) -> list[Expired]:
        answers = await ask_all(
            self._registry.healthy(),
            lambda shard: shard.reap_expired(limit, server_age_ms=server_age_ms, quiet_ms=quiet_ms),
        )
        retried: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for expired in (one for _, found in answers for one in found):
            retried[expired.queue] += expired.retried
            failed[expired.queue] += expired.failed
        for queue in retried:
            self._claimer.due_priorities.invalidate(queue)
        return [Expired(queue, retried[queue], failed[queue]) for queue in retried]

    async def collect_finished(self, succeeded_ttl_ms: int, failed_ttl_ms: int, limit: int) -> list[Collected]:
        answers = await ask_all(
            self._registry.healthy(), lambda shard: shard.collect_finished(succeeded_ttl_ms, failed_ttl_ms, limit)
        )
        succeeded: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for collected in (one for _, found in answers for one in found):
            succeeded[collected.queue] += collected.succeeded
            failed[collected.queue] += collected.failed
        return [Collected(queue, succeeded[queue], failed[queue]) for queue in succeeded]

    async def forget_results(self, limit: int) -> int:
        return await self._sum(lambda shard: shard.forget_results(limit))

    # Workers

    async def store_report(self, worker_id: str, report: bytes, keep_ms: int) -> None:
        if keep_ms:
            await reports.keep(self._registry.healthy(), worker_id, report, keep_ms)
        else:
            await reports.forget(self._registry.healthy(), worker_id)

    async def reports(self, max_bytes: int = MAX_ANSWER_BYTES) -> list[KeptReport]:
        return await reports.read(self._registry.healthy(), max_bytes)

    # Time

    async def learn_time(self, clock: StoreClock) -> None:
        """Read the clocks of the shards, and let ``clock`` show what they show."""
        try:
            clock.learn(
                [ahead for _, ahead in await ask_all(self._registry.healthy(), lambda shard: shard.read_clock())]
            )
            self._tells_time = True
        except ServiceError:
            if self._tells_time:  # said once: the store may be away for long
                log.warning("no shard tells its time; this server goes on from the times they told before")
            self._tells_time = False

    async def follow_time(self, clock: StoreClock) -> None:
        """Keep ``clock`` right; to be run as a task."""
        while True:
            await asyncio.sleep(CLOCK_SECONDS)
            await self.learn_time(clock)

    async def close(self) -> None:
        await self._claimer.close()
        await self._registry.close()

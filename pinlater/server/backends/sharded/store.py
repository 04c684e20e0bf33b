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
from pinlater.server.backends.sharded.claim import Claiming, Wanted
from pinlater.server.backends.sharded.fan_out import Call, ask_all
from pinlater.server.backends.sharded.shard import Shard, ShardSpec
from pinlater.server.backends.sharded.shard_handle import Member, OnCall
from pinlater.server.backends.sharded.shard_registry import Roster
from pinlater.server.backends.sharded.store_clock import StoreClock
from pinlater.server.backends.store import LOOK_OFTEN, Capabilities, LookPauses
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
        look_pauses: see ``Capabilities``.
        on_call: is told of each call to a shard.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[ShardSpec], Shard],
        *,
        look_pauses: LookPauses = LOOK_OFTEN,
        on_call: OnCall = lambda _name, _seconds, *, is_answered: None,  # noqa: ARG005 - the name is part of the call
    ) -> None:
        self.capabilities = Capabilities(name=name, is_serial=False, look_pauses=look_pauses)
        self._roster = Roster(make, on_call)
        self._claiming = Claiming(self._roster, self._ask_owner)
        self._deleting: Counter[str] = Counter()
        self._tells_time = True

    def update(self, specs: Sequence[ShardSpec]) -> None:
        """Put another set of shards into force; those that stay as they are notice nothing."""
        self._roster.update(specs)

    @property
    def waiting(self) -> int:
        """Write requests that have no result yet."""
        return sum(member.shard.waiting for member in self._roster)

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return len(self._roster)

    @property
    def ill_shards(self) -> int:
        """How many shards are left alone because they did not answer."""
        return sum(not member.is_well for member in self._roster)

    @property
    def fault(self) -> str | None:
        """Why no new jobs are taken; None if they are."""
        if not self.shards or self.ill_shards < self.shards:
            return None
        reason = next((member.state.error for member in self._roster if member.state.error), "")
        return f"no shard of the store answers: {reason}".removesuffix(": ")

    def shard_states(self) -> list[ShardState]:
        """Return how each shard is."""
        return [member.state for member in self._roster]

    async def sizes(self) -> dict[str, StoreSize]:
        """Return how much each shard takes, of those that answer."""
        return {member.name: size for member, size in await ask_all(self._roster.well(), lambda shard: shard.size())}

    async def ping_shards(self) -> dict[str, str]:
        """Ask every shard whether it answers, and return what is wrong with those that do not, by name."""
        members = list(self._roster)
        results = await asyncio.gather(*(member.shard.ping() for member in members), return_exceptions=True)
        failed: dict[str, str] = {}
        for member, result in zip(members, results, strict=True):
            if isinstance(result, ServiceError):
                failed[member.name] = str(result)
            elif isinstance(result, BaseException):
                raise result
        return failed

    # Queues

    async def create_queue(self, queue: str) -> None:
        """Make the queue on every shard that answers; the others get it with its first job there."""
        await ask_all(self._roster, lambda shard: shard.create_queue(queue))

    async def delete_queue(self, queue: str) -> None:
        """Delete the queue from every shard.

        Raises:
            ShardConnectionFailed: not every shard answered; the deletion has to be repeated.
        """
        self._deleting[queue] += 1
        try:
            members = list(self._roster)
            deleted = await ask_all(members, lambda shard: shard.delete_queue(queue))
        finally:
            self._deleting -= Counter([queue])
        left = sorted({member.name for member in members} - {member.name for member, _ in deleted})
        if left:
            raise ShardConnectionFailed(
                f"queue {queue} is still on shard {', '.join(left)}, which does not answer; delete it again later"
            )

    async def queue_names(self) -> set[str]:
        answers = await ask_all(self._roster.well(), lambda shard: shard.queue_names())
        return set().union(*(names for _, names in answers))

    async def queue_settings(self) -> dict[str, QueueSettings]:
        return await limits.settings_of_all(self._roster.well())

    async def change_queue_settings(self, queue: str, change: QueueChange) -> None:
        await limits.change_everywhere(list(self._roster), queue, change)

    async def take_tokens(self, queue: str, rate: float, wanted: int) -> Tokens:
        """Take up to so many tokens of a queue with a rate; below 0, give them back.

        Raises:
            QueueNotFound: there is no such queue.
            NoHealthyShards: no shard answers.
        """
        return await limits.take_tokens(self._roster.well(), queue, rate, wanted)

    # The life of jobs

    async def enqueue_jobs(
        self, queue: str, jobs: Sequence[NewJob], *, once: IdempotencyKey | None = None
    ) -> list[str]:
        given = placement.NewJobs(queue, jobs, [job.priority for job in jobs], [job.unique_key for job in jobs], once)

        def call(member: Member, some: Sequence[NewJob], part: IdempotencyKey | None) -> Awaitable[list[str]]:
            return self._ask_owner(member, queue, lambda shard: shard.enqueue_jobs(queue, some, once=part))

        with self._claiming.fronts.changing(queue):
            return await placement.store(self._roster, given, call)

    async def import_jobs(
        self, queue: str, jobs: Sequence[JobRecord], *, once: IdempotencyKey | None = None
    ) -> list[str]:
        priorities = [JobDescriptor.parse(job.descriptor).priority for job in jobs]
        keys = [job.unique_key if job.state in {PENDING, IN_PROGRESS} else None for job in jobs]
        given = placement.NewJobs(queue, jobs, priorities, keys, once)

        def call(member: Member, some: Sequence[JobRecord], part: IdempotencyKey | None) -> Awaitable[list[str]]:
            return self._ask_owner(member, queue, lambda shard: shard.import_jobs(queue, some, once=part))

        with self._claiming.fronts.changing(queue):
            return await placement.store(self._roster, given, call)

    async def _ask_owner(self, member: Member, queue: str, call: Call[_T]) -> _T:
        try:
            return await member.ask(call)
        except QueueNotFound:
            if not await self._is_elsewhere(queue, member):
                raise
        log.info("shard %s did not have queue %s yet", member.name, queue)
        await member.ask(lambda shard: shard.create_queue(queue))
        return await member.ask(call)

    async def _is_elsewhere(self, queue: str, member: Member) -> bool:
        """Whether a shard lacks a queue because it is new, or was ill when the queue was made."""
        others = [other for other in self._roster.well() if other is not member]
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
        return await self._claiming.dequeue(Wanted(queue, limit, claim, max_bytes, want_next_due, max_running))

    async def peek_jobs(self, queue: str, limit: int, *, max_bytes: int = MAX_ANSWER_BYTES) -> list[ClaimedJob]:
        return await self._claiming.peek(queue, limit, max_bytes)

    async def ack_dequeued_jobs(self, queue: str, succeeded: Sequence[Ack], failed: Sequence[Ack]) -> Settled:
        settled = await by_descriptor.ack(self._roster, queue, succeeded, failed)
        if failed:
            self._claiming.fronts.forget(queue)
        return settled

    async def checkpoint_jobs(self, queue: str, checkpoints: Sequence[Checkpoint]) -> Settled:
        settled = await by_descriptor.checkpoint(self._roster, queue, checkpoints)
        if settled.due_ms is not None:
            self._claiming.fronts.forget(queue)
        return settled

    async def release_claims(self, queue: str, source: str) -> int:
        with self._claiming.fronts.changing(queue):
            return await self._sum(lambda shard: shard.release_claims(queue, source))

    # Looking

    async def lookup_jobs(self, jobs: Sequence[JobDescriptor], *, include_body: bool) -> list[JobRecord | None]:
        return await by_descriptor.lookup(self._roster, jobs, include_body=include_body)

    async def count_jobs(self, queue: str, which: JobFilter) -> int:
        return await self._sum(lambda shard: shard.count_jobs(queue, which))

    async def oldest_due_ms(self, queue: str) -> int | None:
        answers = await ask_all(self._roster.well(), lambda shard: shard.oldest_due_ms(queue))
        return min((due_ms for _, due_ms in answers if due_ms is not None), default=None)

    async def first_due(self, queues: Sequence[str]) -> dict[str, int | None]:
        found: dict[str, int | None] = {}
        for _, fronts in await ask_all(self._roster.well(), lambda shard: shard.first_due(queues)):
            for queue, dues in fronts.items():
                known = [due for due in (found.get(queue), *dues) if due is not None]
                found[queue] = min(known, default=None)
        return found

    async def scan_jobs(self, queue: str, which: JobFilter, limit: int, position: Position | None) -> Page:
        pages = await ask_all(
            self._roster.well(),
            lambda shard: shard.scan_jobs(queue, which, limit, scan.start_of(shard.name, position)),
        )
        return scan.merge([page for _, page in pages], limit)

    async def _sum(self, call: Call[int]) -> int:
        return sum(number for _, number in await ask_all(self._roster.well(), call))

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
        with self._claiming.fronts.changing(queue):
            return await limited_changes.up_to(
                self._roster,
                limited_changes.Limit(queue, limit, once),
                lambda shard, left: shard.retry_failed_jobs(queue, priority, attempts, run_after_ms, left, once=once),
            )

    async def delete_jobs(self, queue: str, which: JobFilter, limit: int, *, once: IdempotencyKey | None = None) -> int:
        return await limited_changes.up_to(
            self._roster,
            limited_changes.Limit(queue, limit, once),
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
        with self._claiming.fronts.changing(queue):
            return await by_descriptor.count(
                self._roster,
                jobs,
                lambda shard, own: shard.retry_these_jobs(queue, own, attempts, run_after_ms, once=once),
            )

    async def run_jobs_now(
        self, queue: str, jobs: Sequence[JobDescriptor], *, once: IdempotencyKey | None = None
    ) -> int:
        with self._claiming.fronts.changing(queue):
            return await by_descriptor.count(
                self._roster, jobs, lambda shard, own: shard.run_jobs_now(queue, own, once=once)
            )

    async def delete_these_jobs(
        self, queue: str, jobs: Sequence[JobDescriptor], state: int, *, once: IdempotencyKey | None = None
    ) -> int:
        return await by_descriptor.count(
            self._roster, jobs, lambda shard, own: shard.delete_these_jobs(queue, own, state, once=once)
        )

    async def reap_expired(self, limit: int, *, server_age_ms: int, quiet_ms: int) -> list[Expired]:
        answers = await ask_all(
            self._roster.well(),
            lambda shard: shard.reap_expired(limit, server_age_ms=server_age_ms, quiet_ms=quiet_ms),
        )
        retried: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for expired in (one for _, found in answers for one in found):
            retried[expired.queue] += expired.retried
            failed[expired.queue] += expired.failed
        for queue in retried:
            self._claiming.fronts.forget(queue)
        return [Expired(queue, retried[queue], failed[queue]) for queue in retried]

    async def collect_finished(self, succeeded_ttl_ms: int, failed_ttl_ms: int, limit: int) -> list[Collected]:
        answers = await ask_all(
            self._roster.well(), lambda shard: shard.collect_finished(succeeded_ttl_ms, failed_ttl_ms, limit)
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

    async def keep_report(self, worker_id: str, report: bytes, keep_ms: int) -> None:
        if keep_ms:
            await reports.keep(self._roster.well(), worker_id, report, keep_ms)
        else:
            await reports.forget(self._roster.well(), worker_id)

    async def reports(self, max_bytes: int = MAX_ANSWER_BYTES) -> list[KeptReport]:
        return await reports.read(self._roster.well(), max_bytes)

    # Time

    async def learn_time(self, clock: StoreClock) -> None:
        """Read the clocks of the shards, and let ``clock`` show what they show."""
        try:
            clock.learn([ahead for _, ahead in await ask_all(self._roster.well(), lambda shard: shard.read_clock())])
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
        await self._claiming.close()
        await self._roster.close()

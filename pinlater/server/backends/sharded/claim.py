"""Dequeues over several shards: the highest priority on any shard first, then the next, within limits."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pinlater.errors import ServiceError, ShardConnectionFailed
from pinlater.model.attempts import DequeuedJob
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.plural import plural
from pinlater.server.backends.answers import end_of_answer
from pinlater.server.backends.records import Claim, Dequeued, covered
from pinlater.server.backends.sharded import fan_out
from pinlater.server.backends.sharded.accumulator import DequeueAccumulator
from pinlater.server.backends.sharded.due_priorities import ANY_PRIORITY, ShardPriorities
from pinlater.server.backends.sharded.fan_out import ask_all, ask_in_turn, no_healthy_shards
from pinlater.server.backends.sharded.limits import RunningLimit
from pinlater.server.backends.sharded.queue_locks import ShardedQueueLocks
from pinlater.server.backends.sharded.shard import Shard
from pinlater.server.backends.sharded.shard_group import ShardGroup
from pinlater.server.backends.sharded.shard_handle import ShardHandle
from pinlater.server.log_rate_limit import LogRateLimit

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())

_HELD = Dequeued([], None, has_more=False, is_held=True)


class DequeueOptions(NamedTuple):
    """The arguments of a dequeue, see ``Store.dequeue_jobs``; ``others`` are passed to the shards unchanged."""

    queue: str
    limit: int
    claim: Claim
    max_bytes: int
    max_running: int | None
    others: Mapping[str, Any]


class ShardClaimer:
    """Claims jobs from shards.

    Args:
        group: the shards.
    """

    def __init__(self, group: ShardGroup) -> None:
        self._group = group
        self._locks = ShardedQueueLocks(group)
        self._on_hold: set[str] = set()  # queues that the log says hand out nothing

    async def dequeue(self, wanted: DequeueOptions) -> Dequeued:
        """Claim jobs from healthy shards, highest priority first.

        Raises:
            QueueNotFound: all shards that answered lack the queue.
            NoHealthyShards: no shard answered.
        """
        handles = self._group.registry.healthy()
        asked = self._covered(handles, wanted)
        if wanted.max_running is None or len(self._group.registry) == 1:
            return await self._claim(asked, wanted, RunningLimit(wanted.max_running))
        if not handles:
            raise no_healthy_shards()
        try:
            async with self._locks.of(wanted.queue) as lock:
                running = await self._count_running(wanted.queue, wanted.max_running)
                return await self._claim(asked, wanted, running) if running is not None and lock.is_ours else _HELD
        except ShardConnectionFailed as error:
            self._note_hold(wanted.queue, wanted.max_running, error)
            return _HELD

    def _covered(self, handles: Sequence[ShardHandle], wanted: DequeueOptions) -> Sequence[ShardHandle]:
        """Return the shards that a dequeue asks: its share of the queue's active shards, and of the others."""
        coverage, shards = wanted.claim.coverage, self._group.active_shards.of(wanted.queue)
        if shards is None:
            return handles[: max(covered(coverage, len(self._group.registry)), 1)]
        active = [handle for handle in handles if handle in shards.active]
        others = [handle for handle in handles if handle not in shards.active]
        return [handle for some in (active, others) for handle in some[: max(covered(coverage, len(some)), 1)]]

    async def _count_running(self, queue: str, max_running: int) -> RunningLimit | None:
        """Count the running jobs of a queue; None if a shard does not answer, since its running jobs count, too."""
        try:
            running = await RunningLimit.count(self._group.registry, queue, max_running)
        except ShardConnectionFailed as error:
            self._note_hold(queue, max_running, error)
            return None
        if queue in self._on_hold:
            self._on_hold.remove(queue)
            log.info("queue %s hands out jobs again", queue)
        return running

    def _note_hold(self, queue: str, max_running: int, error: ShardConnectionFailed) -> None:
        if queue not in self._on_hold:
            self._on_hold.add(queue)
            log.warning(
                "queue %s may run %s at once, and hands out none until all shards tell how many run: %s",
                queue,
                plural(max_running),
                error,
            )

    async def close(self) -> None:
        """Stop retrying."""
        await self._locks.close()

    async def peek(self, queue: str, limit: int, max_bytes: int) -> list[DequeuedJob]:
        """Return the jobs that a dequeue from all shards would claim; change nothing."""
        handles = self._group.registry.healthy()
        answers = await ask_all(handles, lambda shard: shard.peek_jobs(queue, limit, max_bytes=max_bytes))
        if len(answers) == 1:
            return answers[0][1]
        found = sorted((job for _, jobs in answers for job in jobs), key=_priority)
        end, _ = end_of_answer([len(job.body) for job in found], 0, limit, max_bytes)
        return found[:end]

    async def _claim(self, handles: Sequence[ShardHandle], wanted: DequeueOptions, limit: RunningLimit) -> Dequeued:
        got = DequeueAccumulator(wanted.limit, wanted.max_bytes)
        try:
            if len(handles) <= 1:
                await self._ask(handles, None, wanted, got, limit)
            else:
                await self._by_priority(handles, wanted, got, limit)
        except ServiceError as error:
            if not got.jobs:
                raise
            log.warning("queue %s: a shard failed; the jobs of the others are handed out: %s", wanted.queue, error)
        if got.is_full and wanted.claim.coverage < 1.0:  # there may be more on the shards that were not asked
            got.has_more = True
        return got.dequeued()

    async def _by_priority(
        self, handles: Sequence[ShardHandle], wanted: DequeueOptions, got: DequeueAccumulator, limit: RunningLimit
    ) -> None:
        known = self._group.due_priorities.get(wanted.queue, handles)
        if known is not None and (await self._ask_owners(known, wanted, got, limit) or got.jobs):
            got.expect(known.next_due_ms)
            return
        read = await self._group.due_priorities.read(wanted.queue, handles)
        got.expect(read.next_due_ms)
        await self._ask_owners(read, wanted, got, limit)

    async def _ask_owners(
        self, due: ShardPriorities, wanted: DequeueOptions, got: DequeueAccumulator, limit: RunningLimit
    ) -> bool:
        """Claim the highest priority from all shards that have it, then the next; return whether that is enough.

        It also counts as enough if time runs out. ``got.has_more`` then tells whether shards may have more due jobs.

        Raises:
            ServiceError: a shard failed; raised after the others were asked, and their jobs are in ``got``.
        """
        deadline = time.monotonic() + fan_out.PATIENCE_SECONDS
        failure, before = due.failure, due.all_arrivals()
        failed: set[ShardHandle] = set()
        for priority, handle in due.in_turn():
            if handle in failed:  # if its answer was lost, the jobs claimed there are about to be released
                continue
            arrivals, levels = due.arrivals(handle), None if priority == ANY_PRIORITY else priority
            is_enough = False
            try:
                is_enough = await self._ask([handle], levels, wanted, got, limit)
            except ServiceError as error:  # only this shard failed; the others may still have jobs
                failure = error
                failed.add(handle)
                self._group.due_priorities.forget(wanted.queue)
            else:
                if not (is_enough and got.last.has_more):
                    due.exhausted(handle, priority, arrivals, got.last.next_due_ms)
                if got.last.is_held or not wanted.others.get("want_next_due"):  # unknown what the shard still has
                    self._group.due_priorities.forget(wanted.queue)
            if is_enough or time.monotonic() > deadline:
                got.has_more = got.has_more or not is_enough or due.has_left(before)
                if is_enough or failure is None:
                    return True
                break
        if failure is not None:
            raise failure
        return False

    async def _ask(
        self,
        handles: Sequence[ShardHandle],
        levels: int | None,
        wanted: DequeueOptions,
        got: DequeueAccumulator,
        limit: RunningLimit,
    ) -> bool:
        """Claim jobs of priorities up to ``levels`` from one shard after the other; return whether there are enough."""
        is_enough = False

        async def dequeue(shard: Shard) -> Dequeued:
            held = got.held_at(shard.name)
            found = await shard.dequeue_jobs(
                wanted.queue,
                got.wanted,
                wanted.claim._replace(held=held) if held else wanted.claim,
                max_bytes=got.free_bytes,
                max_running=limit.at(shard.name),
                levels=levels,
                **wanted.others,
            )
            limit.add(shard.name, len(found.jobs))
            held += found.jobs
            return found

        def add(found: Dequeued) -> bool:
            nonlocal is_enough
            is_enough = got.add(found)
            return is_enough

        await ask_in_turn(handles, dequeue, add)
        return is_enough


def _priority(job: DequeuedJob) -> int:
    return JobDescriptor.parse(job.descriptor).priority

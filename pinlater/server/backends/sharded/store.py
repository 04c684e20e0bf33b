"""Several shards as one store."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import Any

from pinlater.model.attempts import DequeuedJob
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import FailureGroup
from pinlater.model.jobs import JobRecord, NewJob, PartialCount, Position, RecordPage
from pinlater.model.queues import QueueSettings
from pinlater.protocol.messages import IN_PROGRESS, PENDING
from pinlater.server.backends.failure_budget import MOST_READ, largest
from pinlater.server.backends.job_notifications import JobLocation
from pinlater.server.backends.poll_intervals import FREQUENT_POLLS, PollIntervals
from pinlater.server.backends.records import (
    MAX_ANSWER_BYTES,
    Cancelled,
    Claim,
    Dequeued,
    JobFilter,
    Once,
    Settled,
)
from pinlater.server.backends.sharded import by_descriptor, distant_children, limits, merges, reports, scan, statistics
from pinlater.server.backends.sharded.claim import DequeueOptions, ShardClaimer
from pinlater.server.backends.sharded.due_priorities import DuePriorityMap
from pinlater.server.backends.sharded.fan_out import ask_all
from pinlater.server.backends.sharded.overview import StoreOverview
from pinlater.server.backends.sharded.queue_sizer import QueueSizer
from pinlater.server.backends.sharded.settings_poll import SettingsPoll
from pinlater.server.backends.sharded.shard import Shard, ShardSpec
from pinlater.server.backends.sharded.shard_group import ShardGroup
from pinlater.server.backends.sharded.shard_handle import OnCall, ShardHandle
from pinlater.server.backends.sharded.splits import (
    at_job,
    at_named_jobs,
    at_placement,
    makes_due,
    makes_due_in,
    of_group,
    on_all_shards,
    until_limit,
)
from pinlater.server.backends.store import Capabilities, Store
from pinlater.server.backends.token_bucket import Tokens


def _imported_priority(job: JobRecord) -> int:
    return JobDescriptor.parse(job.descriptor).priority


def _imported_unique_key(job: JobRecord) -> str | None:
    return job.unique if job.state in {PENDING, IN_PROGRESS} else None


def _has_made_due(settled: Settled) -> bool:
    return settled.due_ms is not None or settled.let_through > 0


def _has_let_through(cancelled: Cancelled) -> bool:
    return cancelled.let_through > 0


class ShardedStore(StoreOverview):
    """Jobs spread over shards.

    A batch of new jobs goes to one shard, chosen at random among those that the queue uses. A job with a key goes to
    the shard that the key selects. With both a shared and a unique key, the shared one decides, so a unique key is
    unique among jobs with the same shared key. Calls that name a job go to its shard. A dequeue finds out which
    priorities have due jobs on which shards. It asks the shards with the highest of these, in random order, then those
    with the next, until it has enough. Everything else is asked of all shards, and their answers are merged. A shard
    that does not answer is left out, and if it keeps failing, it is not called until it answers probes again.

    Most verbs are made from a shard's verb and a way to split it over the shards; see ``splits``.

    Create it within the event loop that will use it, then call ``update``.

    Args:
        name: name of the kind of store, for display.
        make: makes a shard, which must not connect before its first call.
        poll_intervals: see ``Capabilities``.
        now_ms: the clock of the store.
        on_call: called after each call to a shard.

    Attributes:
        now_ms: its clock.
        group: the shards.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[ShardSpec], Shard],
        *,
        poll_intervals: PollIntervals = FREQUENT_POLLS,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
        on_call: OnCall = lambda _name, _seconds, *, is_answered: None,  # noqa: ARG005 - the name is part of the call
    ) -> None:
        self.capabilities = Capabilities(name, is_serial=False, poll_intervals=poll_intervals)
        self.now_ms = now_ms
        # Longer than the interval, so that a poll that comes a little late still finds the cached state.
        due_priorities = DuePriorityMap(poll_intervals.longest * 1.5, now_ms)
        self.group = ShardGroup(make, due_priorities, on_call)
        self._claimer = ShardClaimer(self.group)
        self.settings_poll = SettingsPoll(self.group)
        self.sizer = QueueSizer(self.group, now_ms)

    def update(self, specs: Sequence[ShardSpec]) -> None:
        """Replace the set of shards; shards that stay the same are not affected."""
        self.group.registry.update(specs)

    # Queues

    queue_names = on_all_shards(Store.queue_names, merges.union)
    queue_settings = on_all_shards(Store.queue_settings, merges.settings)
    change_queue_settings = of_group(Store.change_queue_settings, limits.change_everywhere)
    create_queue = of_group(Store.create_queue, ShardGroup.create_queue)
    delete_queue = of_group(Store.delete_queue, ShardGroup.delete_queue)

    async def changed_queue_settings(self) -> dict[str, QueueSettings] | None:
        return await self.settings_poll.changed()

    async def acquire_tokens(self, queue: str, rate: float, wanted: int) -> Tokens:
        """Take up to ``wanted`` tokens from a queue's token bucket; a negative number gives tokens back.

        Raises:
            QueueNotFound: there is no such queue.
            NoHealthyShards: no shard answers.
        """
        return await limits.acquire_tokens(self.group.healthy(), queue, rate, wanted)

    # Lifecycle

    _store_jobs = at_placement(Store.enqueue_jobs, attrgetter("priority"), attrgetter("unique"))
    import_jobs = makes_due(at_placement(Store.import_jobs, _imported_priority, _imported_unique_key))
    release_claims = makes_due(on_all_shards(Store.release_claims, merges.total))

    async def enqueue_jobs(self, queue: str, jobs: Sequence[NewJob], *, once: Once = None) -> list[str]:
        try:  # cheaper than ``trying``
            stored = await self._store_jobs(queue, jobs, once=once)
        except BaseException:
            self.group.due_priorities.forget(queue)  # some may be stored
            raise
        self.group.due_priorities.stored(queue, jobs, stored)
        return stored

    async def dequeue_jobs(
        self,
        queue: str,
        limit: int,
        claim: Claim,
        *,
        max_bytes: int = MAX_ANSWER_BYTES,
        max_running: int | None = None,
        **options: Any,  # for the shards, see ``Store``
    ) -> Dequeued:
        return await self._claimer.dequeue(DequeueOptions(queue, limit, claim, max_bytes, max_running, options))

    async def peek_jobs(self, queue: str, limit: int, *, max_bytes: int = MAX_ANSWER_BYTES) -> list[DequeuedJob]:
        return await self._claimer.peek(queue, limit, max_bytes)

    ack_dequeued_jobs = makes_due(of_group(Store.ack_dequeued_jobs, by_descriptor.ack), _has_made_due)
    checkpoint_jobs = makes_due(of_group(Store.checkpoint_jobs, by_descriptor.checkpoint), _has_made_due)
    cancel_jobs = makes_due(of_group(Store.cancel_jobs, by_descriptor.cancel), _has_let_through)
    finish_cancellation = of_group(Store.finish_cancellation, by_descriptor.finish_cancellation)

    # Messages

    send_message = at_job(Store.send_message)
    read_messages = at_job(Store.read_messages)
    children_to_cancel = of_group(Store.children_to_cancel, distant_children.children_to_cancel)

    # Reads

    lookup_jobs = of_group(Store.lookup_jobs, by_descriptor.lookup)
    states_in_use = on_all_shards(Store.states_in_use, merges.all_states)

    async def count_jobs(self, queue: str, which: JobFilter) -> int:
        silent: list[str] = []
        counts = await ask_all(self.group.registry, lambda shard: shard.count_jobs(queue, which), silent=silent)
        number = sum(count for _, count in counts)
        return PartialCount(number, sorted(silent)) if silent else number

    async def first_due(self, queues: Sequence[str]) -> dict[str, int | None]:
        found = await self.group.due_priorities.read_all(queues, self.group.healthy())
        return {queue: due.first_due_ms for queue, due in found.items()}

    async def scan_jobs(
        self, queue: str, which: JobFilter, limit: int, position: Position | None, *, oldest_first: bool = False
    ) -> RecordPage:
        silent: list[str] = []
        pages = await ask_all(
            self.group.registry,
            lambda shard: shard.scan_jobs(
                queue, which, limit, scan.start_of(shard.name, position), oldest_first=oldest_first
            ),
            silent=silent,
        )
        merged = scan.merge([(handle.name, page) for handle, page in pages], limit, oldest_first=oldest_first)
        return merged._replace(missing_shards=tuple(silent))

    async def failure_groups(self, queues: Sequence[str], limit: int) -> list[FailureGroup]:
        answers = await ask_all(self.group.healthy(), lambda shard: shard.failure_groups(queues, MOST_READ))
        return largest(merges.failure_groups([groups for _, groups in answers]), limit)

    # Changes by operators, and maintenance by the monitor

    retry_failed_jobs = makes_due(until_limit(Store.retry_failed_jobs))
    delete_jobs = makes_due(until_limit(Store.delete_jobs))
    retry_these_jobs = makes_due(at_named_jobs(Store.retry_these_jobs))
    schedule_jobs = makes_due(at_named_jobs(Store.schedule_jobs))
    delete_these_jobs = makes_due(at_named_jobs(Store.delete_these_jobs))
    _reap = on_all_shards(Store.reap_expired, merges.expired, keeps_refusals=True, adapt=ShardHandle.with_age)
    reap_expired = makes_due_in(_reap, merges.queues_of)
    collect_finished = on_all_shards(Store.collect_finished, merges.collected, keeps_refusals=True)
    forget_results = on_all_shards(Store.forget_results, merges.total, keeps_refusals=True)

    # Worker reports, and statistics

    store_report = of_group(Store.store_report, reports.store)
    reports = of_group(Store.reports, reports.read)
    add_statistics = of_group(Store.add_statistics, statistics.add)
    read_statistics = of_group(Store.read_statistics, statistics.read)
    forget_statistics = on_all_shards(Store.forget_statistics, merges.total, keeps_refusals=True)

    # What other servers do

    def jobs_arrived(self, queue: str, due_ms: int | None, locations: Collection[JobLocation]) -> None:
        self.group.due_priorities.arrived(queue, due_ms, locations)

    def notifications_lost(self) -> None:
        self.group.due_priorities.forget_all()

    async def close(self) -> None:
        await self._claimer.close()
        await self.group.close()

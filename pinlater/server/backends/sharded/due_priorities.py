"""Which priorities of a queue have due jobs on each shard: read from the shards, and kept up to date for a while.

Everything that makes a job due is either recorded here or drops the cached state of its queue, whether this server does
it or another one sends a notification. If a notification is lost, the next read finds the job; until that read, jobs of
other shards may be handed out before it. Nothing relies on the cache showing that a queue has no due jobs.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice, takewhile

from pinlater.errors import QueueNotFound, ServiceError, ShardConnectionFailed
from pinlater.model.jobs import NewJob
from pinlater.server.backends.job_notifications import JobLocation, later_ms, locations_of
from pinlater.server.backends.sharded.fan_out import PATIENCE_SECONDS, ask_all
from pinlater.server.backends.sharded.merges import earliest
from pinlater.server.backends.sharded.shard import MOST_READ_TOGETHER, DuePriorities, Shard
from pinlater.server.backends.sharded.shard_handle import ShardHandle
from pinlater.server.backends.store import queue_not_found

_REREAD_SHARE = 0.5
"""Busy queues that were read this share of the time ago are read again together with another queue."""

FRESH_SECONDS = 0.05
"""How long a read stays usable, even if another job has fallen due since. On busy queues, dequeues share one read."""

ANY_PRIORITY = 127
"""Stands for the priority of a job whose priority is unknown; as a bound, it includes all priorities."""


@dataclass(slots=True)
class ShardPriorities:
    """The due priorities of a queue, shard by shard.

    Attributes:
        fresh_until: until when they are usable even if another job has fallen due, in monotonic seconds.
        until: when they become too old to use, in monotonic seconds.
        by_shard: due priorities by shard; those that turn out to be exhausted are removed.
        next_due_ms: when the next job that is not due yet falls due.
        first_due_ms: when the first job fell due, or will; None: there is none.
        failure: the error of a shard that refused to report its priorities.
        asked: when dequeues of the queue asked each shard last, in monotonic seconds; all reads share it.
        is_used: whether a dequeue has used them.
        is_reread: whether they have been read again, or are being read, together with those of another queue.
    """

    fresh_until: float
    until: float
    by_shard: dict[ShardHandle, set[int]]
    next_due_ms: int | None
    first_due_ms: int | None
    failure: ServiceError | None
    asked: dict[ShardHandle, float]
    is_used: bool = False
    is_reread: bool = False
    _arrivals: Counter[ShardHandle] = field(default_factory=Counter)

    def owners(self, priority: int) -> list[ShardHandle]:
        """Return the shards that have due jobs of a priority, the one that was not asked for longest first."""
        owners = [handle for handle, priorities in self.by_shard.items() if priority in priorities]
        random.shuffle(owners)  # several servers should not begin with the same one
        return sorted(owners, key=lambda handle: self.asked.get(handle, -math.inf))

    @property
    def priorities(self) -> list[int]:
        """All priorities with due jobs, highest first."""
        return sorted({priority for priorities in self.by_shard.values() for priority in priorities})

    def in_turn(self) -> Iterator[tuple[int, ShardHandle]]:
        """Yield (priority, shard) for all due jobs, highest priority first; the shards of one take turns."""
        for priority in self.priorities:
            for handle in self.owners(priority):
                self.asked[handle] = time.monotonic()
                yield priority, handle

    def arrived(self, handle: ShardHandle, priority: int) -> None:
        """Record that a job has come to a shard."""
        self.by_shard[handle].add(priority)
        self._arrivals[handle] += 1

    def arrivals(self, handle: ShardHandle) -> int:
        """Return the shard's arrival counter, which changes whenever a job comes to it."""
        return self._arrivals[handle]

    def all_arrivals(self) -> dict[ShardHandle, int]:
        """Return the arrival counters of all shards."""
        return {handle: self._arrivals[handle] for handle in self.by_shard}

    def has_left(self, before: Mapping[ShardHandle, int]) -> bool:
        """Return whether a shard to which no job has come since ``before`` has due jobs.

        Jobs that came later have woken other dequeues.
        """
        return any(self.by_shard[handle] and self._arrivals[handle] == at for handle, at in before.items())

    def exhausted(self, handle: ShardHandle, priority: int, arrivals: int, next_due_ms: int | None) -> None:
        """Record that a shard had no more due jobs of the priorities up to this one.

        Args:
            handle: the shard.
            priority: the lowest priority of which it has no due jobs.
            arrivals: its arrival counter when it was asked.
            next_due_ms: when its next job of these priorities falls due.
        """
        self.expect(next_due_ms)
        if arrivals == self._arrivals[handle]:
            self.by_shard[handle] = {other for other in self.by_shard[handle] if other > priority}

    def expect(self, due_ms: int | None) -> None:
        """Record when a job falls due."""
        self.next_due_ms = earliest((self.next_due_ms, due_ms))


class DuePriorityMap:
    """Reads and caches the due priorities of queues.

    Args:
        keep_seconds: how long to keep what was read.
        now_ms: the clock of the store.
    """

    def __init__(self, keep_seconds: float, now_ms: Callable[[], int]) -> None:
        self._keep_seconds = keep_seconds
        self._now_ms = now_ms
        self._known: dict[str, ShardPriorities] = {}  # in the order of reads
        self._dropped: dict[str, ShardPriorities] = {}  # in use until jobs came of which it is not known where
        self._asked: defaultdict[str, dict[ShardHandle, float]] = defaultdict(dict)
        self._changed_during_read: list[set[str]] = []

    def get(self, queue: str, handles: Sequence[ShardHandle]) -> ShardPriorities | None:
        """Return the cached priorities of a queue, if they are of exactly these shards and not empty."""
        known = self._valid(queue)
        if known is None or known.by_shard.keys() != set(handles) or not known.priorities:
            return None
        known.is_used = True
        return known

    def _valid(self, queue: str) -> ShardPriorities | None:
        known = self._known.get(queue)
        if known is None:
            return None
        now = time.monotonic()
        is_incomplete = known.next_due_ms is not None and known.next_due_ms <= self._now_ms()
        if now > known.until or (is_incomplete and now > known.fresh_until):
            del self._known[queue]
            return None
        return known

    # Reading

    async def read(self, queue: str, handles: Sequence[ShardHandle]) -> ShardPriorities:
        """Read the due priorities of a queue from these shards, and of other busy queues that will soon be too old.

        Raises:
            QueueNotFound: all shards that answered lack the queue.
            NoHealthyShards: no shard answered.
        """
        found = await self.read_all([queue, *self._others_to_read(queue, handles)], handles)
        if queue not in found:
            self.forget(queue)
            raise queue_not_found(queue)
        return found[queue]

    def _others_to_read(self, queue: str, handles: Sequence[ShardHandle]) -> list[str]:
        """Return other queues to read again, so that many busy ones do not cost a query of each shard each."""
        now, shards = time.monotonic(), set(handles)
        _drop_expired(self._known, now)
        _drop_expired(self._dropped, now)
        self._dropped.pop(queue, None)
        least_left = self._keep_seconds * (1 - _REREAD_SHARE)
        old = takewhile(lambda entry: entry[1].until - now < least_left, self._known.items())

        def is_wanted(entry: tuple[str, ShardPriorities]) -> bool:
            other, known = entry
            is_busy = known.is_used and not known.is_reread and now < known.until
            return is_busy and other != queue and known.by_shard.keys() == shards

        found = dict(islice(filter(is_wanted, chain(self._dropped.items(), old)), MOST_READ_TOGETHER - 1))
        for other, known in found.items():
            known.is_reread = True
            self._dropped.pop(other, None)
        return [*found]

    async def read_all(self, queues: Sequence[str], handles: Sequence[ShardHandle]) -> dict[str, ShardPriorities]:
        """Read the due priorities of those queues that exist, with one query per shard.

        Raises:
            NoHealthyShards: no shard answered.
        """
        changed: set[str] = set()
        self._changed_during_read.append(changed)
        asked_at = time.monotonic()
        failure: ServiceError | None = None

        async def ask(shard: Shard) -> dict[str, DuePriorities]:
            nonlocal failure
            try:
                return await shard.due_priorities(queues)
            except (QueueNotFound, ShardConnectionFailed):
                raise
            except ServiceError as error:  # one shard's refusal must not hide the jobs of the others
                failure = error
                return {}

        try:
            answers = await ask_all(handles, ask, patience=PATIENCE_SECONDS)
        finally:
            self._changed_during_read = [other for other in self._changed_during_read if other is not changed]
        found = {}
        for queue in queues:
            of_queue = {handle: answer.get(queue) for handle, answer in answers}
            if failure is None and not any(of_queue.values()):
                continue
            until = asked_at + self._keep_seconds
            found[queue] = _merged(asked_at + FRESH_SECONDS, until, of_queue, failure, self._asked[queue])
            if queue not in changed and failure is None:
                self._known.pop(queue, None)
                self._known[queue] = found[queue]
        return found

    # Changes

    def arrived(self, queue: str, due_ms: int | None, locations: Iterable[JobLocation]) -> None:
        """Record new jobs of a queue.

        Args:
            queue: queue of the jobs.
            due_ms: when the first of them falls due, in epoch milliseconds; None: now.
            locations: where the jobs are, if they are due; if empty, the cached state of the queue is dropped.
        """
        for changed in self._changed_during_read:
            changed.add(queue)
        known = self._valid(queue)
        if known is None:
            return
        if due_ms is not None and due_ms > self._now_ms():
            known.expect(due_ms)
            return
        by_name = {handle.name: handle for handle in known.by_shard}
        added = {(by_name.get(location.shard), location.priority or ANY_PRIORITY) for location in locations}
        is_order_known = ANY_PRIORITY not in {*known.priorities, *(priority for _, priority in added)}
        if not added or not (is_order_known or len(added) + len(known.priorities) == 1):
            del self._known[queue]
            if known.is_used:
                self._dropped[queue] = known
            return
        for handle, priority in added:
            if handle is None:  # a shard that this server does not know, or considers unhealthy
                self._known.pop(queue, None)
            else:
                known.arrived(handle, priority)

    def stored(self, queue: str, jobs: Sequence[NewJob], descriptors: Sequence[str]) -> None:
        """Record new jobs, given their descriptors."""
        if queue not in self._known and not self._changed_during_read:
            return
        now_ms = self._now_ms()
        times = [later_ms(job, now_ms) for job in jobs]
        due = [name for name, due_ms in zip(descriptors, times, strict=True) if due_ms is None]
        if due:
            self.arrived(queue, None, locations_of(due))
        if len(due) < len(jobs):
            self.arrived(queue, min(due_ms for due_ms in times if due_ms is not None), ())

    @contextmanager
    def trying(self, queue: str) -> Iterator[None]:
        """Drop the cached state of a queue if the block fails, since some shards may have done their part."""
        try:
            yield
        except BaseException:
            self.forget(queue)
            raise

    def forget(self, queue: str) -> None:
        """Drop the cached state of a queue, as some of its jobs may have become due."""
        for changed in self._changed_during_read:
            changed.add(queue)
        self._known.pop(queue, None)

    def keep_only(self, queues: Container[str]) -> None:
        """Drop the cached state of all other queues, which were deleted."""
        for queue in [queue for queue in self._known if queue not in queues]:
            self.forget(queue)
        for queue in [queue for queue in self._asked if queue not in queues]:
            del self._asked[queue]

    def forget_all(self) -> None:
        """Drop the cached state of all queues, as notifications may have been lost."""
        for queue in list(self._known):
            self.forget(queue)


def _drop_expired(known: dict[str, ShardPriorities], now: float) -> None:
    for queue in [queue for queue, _ in takewhile(lambda entry: entry[1].until <= now, known.items())]:
        del known[queue]


def _merged(
    fresh_until: float,
    until: float,
    of_queue: dict[ShardHandle, DuePriorities | None],
    failure: ServiceError | None,
    asked: dict[ShardHandle, float],
) -> ShardPriorities:
    answers = [due for due in of_queue.values() if due is not None]
    return ShardPriorities(
        fresh_until,
        until,
        {handle: set() if due is None else set(due.priorities) for handle, due in of_queue.items()},
        earliest(due.next_due_ms for due in answers),
        earliest(due.first_due_ms for due in answers),
        failure,
        asked,
    )

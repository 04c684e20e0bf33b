"""How many shards a queue needs that follows its load: more as soon as it is behind, fewer after quiet minutes.

Every server of the store decides at its turns, based on what is in the store, so all come to the same result. It is
stored as a setting of the queue.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pinlater.errors import ServiceError
from pinlater.model.plural import plural
from pinlater.model.queues import FOLLOWS_LOAD, QueueChange, QueueSettings
from pinlater.model.statistics import MINUTE, StatisticsKind
from pinlater.server.backends.sharded import limits, statistics
from pinlater.server.backends.sharded.shard_group import ShardGroup
from pinlater.server.backends.statistics import ENQUEUED, StatisticsEntry, StatisticsQuery, chunks

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""Each server checks at its first turn after this time; counts of enqueued jobs are written to the store as often."""

JOBS_PER_SECOND = 100
"""A queue uses one shard per this many new jobs a second: few enough for any machine, so nothing is measured."""

BEHIND_SECONDS = 2.0
"""A queue is behind if its oldest due job has waited for longer than this."""

QUIET_MINUTES = 5
"""The number of shards falls only after this many minutes in which fewer would have been enough."""

_SPARE = 1.25
"""Fewer shards must be enough for this many times the load, or a steady load might soon need one more again."""

_LEAST_SECONDS = 15.0
"""The current minute counts as at least this many seconds, so that a few early jobs are not taken for a high rate."""

_QUEUES_AT_ONCE = 500


class Load(NamedTuple):
    """The load of a queue.

    Attributes:
        jobs_per_second: rate of enqueued jobs in the busiest of the last minutes.
        behind_seconds: how long the oldest due job has waited.
    """

    jobs_per_second: float
    behind_seconds: float = 0.0

    @property
    def is_behind(self) -> bool:
        """Whether jobs are, or were, enqueued faster than they are handed out."""
        return self.behind_seconds > BEHIND_SECONDS


def shards_needed(load: Load, present: int | None, most: int, *, is_quiet: bool) -> int:
    """Return how many shards a queue is to use.

    The number doubles while the queue is behind, rises at once to what new jobs need, and at most halves at a time.

    Args:
        load: load of the queue.
        present: how many shards it uses; None: never decided.
        most: how many shards there are.
        is_quiet: whether for long the number has not changed and the queue was not behind.
    """
    needed = _enough_for(load.jobs_per_second, most)
    if present is None:
        return most if load.is_behind else needed
    present = min(present, most)
    if load.is_behind:
        return max(needed, min(2 * present, most))
    fewer = max(_enough_for(load.jobs_per_second * _SPARE, most), present // 2)
    return fewer if is_quiet and fewer < present else max(needed, present)


def _enough_for(jobs_per_second: float, most: int) -> int:
    return min(max(math.ceil(jobs_per_second / JOBS_PER_SECOND), 1), most)


@dataclass(slots=True)
class _Size:
    """A queue that follows its load: its settings, and since when it may need fewer shards, in monotonic seconds."""

    settings: QueueSettings
    quiet_since: float


class QueueSizer:
    """Adjusts the number of shards of queues that follow their load.

    Args:
        group: the shards.
        now_ms: the clock of the store.
        clock: monotonic seconds.
    """

    def __init__(
        self, group: ShardGroup, now_ms: Callable[[], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._group = group
        self._now_ms = now_ms
        self._clock = clock
        self._sizes: dict[str, _Size] = {}
        self._next_at = -math.inf

    def apply_settings(self, settings: Mapping[str, QueueSettings]) -> None:
        """Learn which queues follow their load, from the settings of all queues."""
        now, before = self._clock(), self._sizes
        self._sizes = {queue: _Size(one, now) for queue, one in settings.items() if one.shards == FOLLOWS_LOAD}
        for queue, size in self._sizes.items():
            known = before.get(queue)
            if known is not None and known.settings.shards_by_load == size.settings.shards_by_load:
                size.quiet_since = known.quiet_since

    async def adjust(self, is_limited: Callable[[str], bool]) -> None:
        """Check the loads and change numbers of shards, if it is time; what fails is tried again at the next check.

        Args:
            is_limited: returns whether a queue is paused or has a limit; its jobs wait for that and not for a shard.
        """
        if not self._sizes or self._clock() < self._next_at:
            return
        self._next_at = self._clock() + LOOK_SECONDS
        try:
            for queues in chunks(sorted(self._sizes), _QUEUES_AT_ONCE):
                await self._adjust(queues, is_limited)
        except ServiceError as error:
            log.debug("the loads of queues cannot be read: %s", error)

    async def _adjust(self, queues: Sequence[str], is_limited: Callable[[str], bool]) -> None:
        loads = await self._loads(queues, is_limited)
        most = len(self._group.registry.enqueueable)
        for queue, load in loads.items():
            size = self._sizes.get(queue)
            if size is None or not most:  # the queue was deleted, or no longer follows its load
                continue
            now = self._clock()
            if load.is_behind:
                size.quiet_since = now
            present, is_quiet = size.settings.shards_by_load, now - size.quiet_since >= QUIET_MINUTES * MINUTE
            wanted = shards_needed(load, present, most, is_quiet=is_quiet)
            if wanted != present:
                await self._change(queue, load, present, wanted)

    async def _loads(self, queues: Sequence[str], is_limited: Callable[[str], bool]) -> dict[str, Load]:
        """Read the loads of queues, with two queries per shard."""
        now_ms = self._now_ms()
        minute_ms = MINUTE * 1000
        first_ms = (now_ms // minute_ms - QUIET_MINUTES) * minute_ms
        which = StatisticsQuery(StatisticsKind.QUEUE, MINUTE, first_ms, now_ms + 1, queues)
        entries, due = await asyncio.gather(
            statistics.read(self._group, which, len(which.starts) * len(queues)),
            self._group.due_priorities.read_all(queues, self._group.healthy()),
        )
        rates: dict[str, float] = {}
        for entry in entries:
            rates[entry.key.queue] = max(rates.get(entry.key.queue, 0.0), _rate(entry, now_ms))
        return {
            queue: Load(rates.get(queue, 0.0), 0.0 if is_limited(queue) else _seconds_since(found.first_due_ms, now_ms))
            for queue, found in due.items()
        }

    async def _change(self, queue: str, load: Load, present: int | None, wanted: int) -> None:
        try:
            await limits.change_everywhere(self._group, queue, QueueChange(shards_by_load=wanted))
        except ServiceError as error:
            log.debug("queue %s is not to use %s on all of them yet: %s", queue, plural(wanted, "shard"), error)
            return
        log.info(
            "queue %s: new jobs go to %s, not %s, for up to %.0f jobs/s, the oldest due %.1f s ago",
            queue,
            plural(wanted, "shard"),
            "all" if present is None else present,
            load.jobs_per_second,
            load.behind_seconds,
        )


def _seconds_since(due_ms: int | None, now_ms: int) -> float:
    return 0.0 if due_ms is None else max(now_ms - due_ms, 0) / 1000


def _rate(entry: StatisticsEntry, now_ms: int) -> float:
    seconds = (now_ms - entry.key.start_ms) / 1000
    return entry.counts.get(ENQUEUED, 0) / min(max(seconds, _LEAST_SECONDS), MINUTE)

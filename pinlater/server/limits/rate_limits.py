"""Limit how many jobs of a queue are handed out, with one token bucket for each limited queue.

Each job costs one token. A bucket holds at most one second's worth of tokens, but at least one, so that a rate of 0.1
per second lets a job through every 10 s. A new bucket is full: the first job of a slow queue need not wait. A changed
rate and a pause keep the current tokens, so that reloading a file hands out nothing extra.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

_ROUNDING = 1e-9
"""Tokens are fractional: after waiting just long enough, rounding may leave the sum a little below one."""


class Bucket(Protocol):
    """Token bucket of one queue; ``rate`` is per second and above 0, times are monotonic seconds."""

    rate: float

    def change_rate(self, rate: float, now: float) -> None:
        """Change the rate, keeping the tokens."""

    async def acquire(self, wanted: int, now: float) -> int:
        """Take up to ``wanted`` tokens; return how many."""

    def give_back(self, count: int, now: float) -> None:
        """Return unused tokens to the bucket."""

    def seconds_until_next(self, now: float) -> float:
        """Return the seconds until a token is available; 0: now."""


class LocalBucket(Bucket):
    """Token bucket of a queue whose jobs only this process hands out."""

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self._capacity = max(rate, 1.0)
        self._tokens = self._capacity
        self._filled_at = now

    def change_rate(self, rate: float, now: float) -> None:
        self._fill(now)
        self.rate = rate
        self._capacity = max(rate, 1.0)
        self._tokens = min(self._tokens, self._capacity)

    async def acquire(self, wanted: int, now: float) -> int:
        self._fill(now)
        taken = max(0, min(wanted, int(self._tokens + _ROUNDING)))
        self._tokens -= taken
        return taken

    def give_back(self, count: int, now: float) -> None:
        self._fill(now)
        self._tokens = min(self._capacity, self._tokens + count)

    def seconds_until_next(self, now: float) -> float:
        self._fill(now)
        missing = 1.0 - self._tokens
        return missing / self.rate if missing > _ROUNDING else 0.0

    def _fill(self, now: float) -> None:
        self._tokens = min(self._capacity, self._tokens + (now - self._filled_at) * self.rate)
        self._filled_at = now


class RateLimits:
    """Holds the limits of all queues; a queue without one is unlimited.

    Args:
        clock: returns monotonic seconds.
        new_bucket: creates the bucket of a queue, given its rate and the time.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        new_bucket: Callable[[str, float, float], Bucket] = lambda _queue, rate, now: LocalBucket(rate, now),
    ) -> None:
        self._clock = clock
        self._new_bucket = new_bucket
        self._buckets: dict[str, Bucket] = {}
        self._paused: frozenset[str] = frozenset()
        self._max_running: Mapping[str, int] = {}
        self._applied: Mapping[str, tuple[float | None, int | None]] = {}

    def update(
        self, queue_rates: Mapping[str, float], server_count: int = 1, max_running: Mapping[str, int] | None = None
    ) -> set[str]:
        """Apply new limits; unchanged ones keep their tokens. Return the queues whose limits have changed.

        Args:
            queue_rates: jobs per second, over all servers; 0 or less pauses a queue.
            server_count: servers that share the rates, at least 1.
            max_running: most jobs claimed at once, over the whole store.
        """
        self._max_running = most = max_running or {}
        now = self._clock()
        self._paused = frozenset(queue for queue, rate in queue_rates.items() if rate <= 0)
        rates = {queue: rate / server_count for queue, rate in queue_rates.items()}
        buckets = {}
        for queue, rate in rates.items():
            if rate > 0:
                buckets[queue] = bucket = self._buckets.get(queue) or self._new_bucket(queue, rate, now)
                if bucket.rate != rate:
                    bucket.change_rate(rate, now)
            elif queue in self._buckets:  # for when it is resumed: a new bucket would be full
                buckets[queue] = self._buckets[queue]
        self._buckets = buckets
        applied = {queue: (rates.get(queue), most.get(queue)) for queue in rates.keys() | most.keys()}
        changed = {queue for queue, _ in applied.items() ^ self._applied.items()}
        self._applied = applied
        return changed

    async def acquire(self, queue: str, wanted: int) -> int:
        """Take tokens for up to ``wanted`` jobs; return how many may be handed out now.

        Raises:
            ServiceError: the store, which holds the tokens, has failed.
        """
        if queue in self._paused:
            return 0
        bucket = self._buckets.get(queue)
        return wanted if bucket is None else await bucket.acquire(wanted, self._clock())

    def give_back(self, queue: str, count: int) -> None:
        """Return tokens for jobs that were not handed out."""
        bucket = self._buckets.get(queue)
        if bucket is not None:
            bucket.give_back(count, self._clock())

    def max_running(self, queue: str) -> int | None:
        """Return how many jobs of a queue may be claimed at once; None: any number."""
        return self._max_running.get(queue)

    def is_paused(self, queue: str) -> bool:
        """Return whether a queue is paused."""
        return queue in self._paused

    def is_limited(self, queue: str) -> bool:
        """Return whether a queue is paused or has any limit."""
        return queue in self._paused or queue in self._buckets or queue in self._max_running

    def seconds_until_next(self, queue: str) -> float | None:
        """Return the seconds until a job may be handed out; 0: now, None: never, since the queue is paused."""
        if queue in self._paused:
            return None
        bucket = self._buckets.get(queue)
        return 0.0 if bucket is None else bucket.seconds_until_next(self._clock())

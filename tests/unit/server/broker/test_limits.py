"""Parked dequeues of a rate-limited queue are woken when the limit allows the next job."""

import asyncio

import pytest

from pinlater.model.attempts import DequeuedJob
from pinlater.server.backends.poll_intervals import FREQUENT_POLLS
from pinlater.server.backends.records import Claim, Dequeued
from pinlater.server.backends.store import Capabilities
from pinlater.server.broker import Broker, Caller
from pinlater.server.broker.dequeue import DequeueRequest
from pinlater.server.limits.rate_limits import RateLimits

JOB = DequeuedJob("q:s1:p1:1", b"x", 2, 2, 0, 0)


class Store:
    """Always has a job."""

    capabilities = Capabilities("fake", is_serial=True, poll_intervals=FREQUENT_POLLS)

    def now_ms(self):
        return 0

    async def dequeue_jobs(self, queue, limit, claim, *, max_bytes, want_next_due=False, max_running=None):
        return Dequeued([JOB], None, has_more=True)


class CreepingClock:
    """Goes on a little with every look, so that a limit lets go between two of them."""

    def __init__(self, step):
        self.seconds = 0.0
        self._step = step

    def __call__(self):
        self.seconds += self._step
        return self.seconds


@pytest.mark.parametrize("looks", range(1, 13))
def test_a_rate_limit_frees_tokens_whenever_the_clock_is_read(looks):
    async def wait():
        limits = RateLimits(CreepingClock(0.05 / looks))
        limits.update({"q": 20})
        broker = Broker(Store(), limits)
        order = DequeueRequest(("q",), 1, 1_000_000, lambda: Claim("c", 1000), wait_seconds=30.0)
        for _ in range(25):  # the first 20 are saved up
            async with asyncio.timeout(10):
                assert (await broker.dequeue(order, Caller())).jobs == {"q": [JOB]}

    asyncio.run(wait())

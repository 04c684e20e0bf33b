"""Several servers over several shards, whose notifications get lost: no job is left waiting beside an idle consumer."""

import asyncio
import random
import time
from functools import partial

import pytest

from pinlater.model.attempts import StoredAck, StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import IN_PROGRESS, PENDING
from pinlater.server.backends.poll_intervals import PollIntervals
from pinlater.server.backends.records import Claim, JobFilter
from pinlater.server.broker import Broker, Caller
from pinlater.server.broker import broker as brokers
from pinlater.server.broker.dequeue import DequeueRequest
from pinlater.server.limits.rate_limits import RateLimits
from tests.support.bench import new_job
from tests.support.fleets import mysql_fleets, redis_fleets
from tests.support.notifiers import FakeNotifier

pytestmark = pytest.mark.usefixtures("patience")

QUEUES = ["a", "b", "c", "d"]
SERVERS = 3
JOBS = 80


@pytest.fixture(params=[mysql_fleets, redis_fleets])
def fleets(request, tmp_path, monkeypatch):
    # A queue that is wrongly taken as empty stays so, unless a look finds that it is not.
    monkeypatch.setattr(brokers, "MIN_KNOWN_EMPTY_SECONDS", 3600.0)
    make, close = request.param(tmp_path, names="123", pauses=PollIntervals(0.05, 0.4))
    yield make
    close()


def now_ms():
    return int(time.time() * 1000)


class Crowd:
    """Servers that announce jobs to each other, producers and consumers.

    Args:
        fleets: makes the store of each server.
        rng: decides who does what.
        waits: how long a dequeue may wait, in seconds.
        loss: share of the announcements that get lost; of the others, half do not say where the jobs are.
    """

    def __init__(self, fleets, rng, loss, waits):
        self.rng, self.loss, self.waits = rng, loss, waits
        self.brokers = [Broker(fleets(), RateLimits()) for _ in range(SERVERS)]
        self.succeeded = []
        self.claims = 0
        for broker in self.brokers:
            broker.notifiers.append(FakeNotifier(partial(self.announce, broker)))

    def announce(self, sender, queue, due_ms, locations, _count):
        for broker in self.brokers:
            if broker is not sender and self.rng.random() >= self.loss:
                broker.on_remote_jobs(queue, due_ms, locations() if self.rng.random() < 0.5 else ())

    async def produce(self):
        for number in range(JOBS):
            delay = self.rng.choice([None, None, self.rng.randrange(500)])
            job = new_job(
                b"%d" % number,
                priority=self.rng.randint(1, 3),
                run_after_ms=None if delay is None else now_ms() + delay,
                attempts=1000,
            )
            await self.brokers[0].enqueue(self.rng.choice(QUEUES), [job])
            await asyncio.sleep(self.rng.random() * 0.03)

    async def consume(self, number):
        name, always = f"c{number}", QUEUES[number % len(QUEUES)]  # for each queue, somebody always waits
        while len(self.succeeded) < JOBS:
            broker = self.rng.choice(self.brokers[1:])  # not where jobs are stored
            others = [queue for queue in QUEUES if queue != always and self.rng.random() < 0.5]
            queues = self.rng.sample([always, *others], len(others) + 1)
            wait = self.rng.choice(self.waits)
            order = DequeueRequest(queues, self.rng.randint(1, 5), 10**6, lambda: self.claim(name), wait)
            found = await broker.dequeue(order, Caller())
            for queue, jobs in found.jobs.items():
                await self.settle(queue, jobs, found.claim.descriptor)
            if not wait:
                await asyncio.sleep(0.01)

    def claim(self, name):
        self.claims += 1
        return Claim(f"h:1:1:{name}:{self.claims}", 60_000)

    async def settle(self, queue, jobs, claim):
        for job in jobs:
            broker, at = self.rng.choice(self.brokers), JobDescriptor.parse(job.descriptor)
            fate = self.rng.random()
            if fate < 0.1:
                await broker.ack(queue, [], [StoredAck(at, claim, "", self.rng.randrange(200), False)])
            elif fate < 0.2:
                await broker.checkpoint(queue, [StoredCheckpoint(at, claim, "", None, True, None, None, "")])
            else:
                await broker.ack(queue, [StoredAck(at, claim, "", 0, False)], [])
                self.succeeded.append(job.descriptor)
                if len(self.succeeded) == JOBS:
                    self.end()

    def end(self):
        for broker in self.brokers:
            broker.end_all_waits()

    async def run(self):
        for queue in QUEUES:
            await self.brokers[0].backend.create_queue(queue)
        consumers = [self.consume(number) for number in range(8)]
        async with asyncio.timeout(100):
            await asyncio.gather(self.produce(), *consumers)
        left = [
            await self.brokers[0].backend.count_jobs(queue, JobFilter(state))
            for queue in QUEUES
            for state in (PENDING, IN_PROGRESS)
        ]
        assert (len(set(self.succeeded)), len(self.succeeded), sum(left)) == (JOBS, JOBS, 0)
        for broker in self.brokers:
            await broker.backend.close()


@pytest.mark.parametrize(
    ("loss", "waits"), [(0.0, [3600.0]), (0.5, [3600.0]), (1.0, [3600.0]), (0.5, [0.0, 1.0, 3600.0])]
)
def test_every_job_reaches_a_consumer_whatever_announcements_get_lost(fleets, loss, waits):
    seed = random.randrange(2**32)
    print("seed", seed)  # to try a failure again

    async def scenario():
        await Crowd(fleets, random.Random(seed), loss, waits).run()

    asyncio.run(scenario())

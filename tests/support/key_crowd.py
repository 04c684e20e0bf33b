"""Producers and holders of jobs with keys, as coroutines at the stores of servers, and what must not have been."""

import asyncio
import itertools
import os
import random
from collections import Counter, defaultdict

from pinlater.errors import ServiceError
from pinlater.model.attempts import StoredAck
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.server.backends.records import Claim, IdempotencyKey
from tests.support.bench import QUEUE, new_job

KEYS = [
    *[JobKey(f"ordered {number}", 1, is_ordered=True) for number in range(4)],
    JobKey("one", 1),
    JobKey("another", 1),
    JobKey("three", 3),
    JobKey("any"),
    None,
]
PRODUCERS_OF_A_KEY = 2
HOLDERS = 24
FAILING_SHARE = 0.1


class Crowd:
    """Producers and holders, each call at one of the servers.

    Args:
        servers: stores with the same shards.
        jobs_of_a_key: how many are enqueued.
        seed: of what the holders do.
        is_losing: whether answers may be lost, so that enqueues have idempotency keys and are sent again.

    Attributes:
        jobs: how many there are in all.
        faults: what must not have been.
    """

    def __init__(self, servers, jobs_of_a_key, *, seed=0, is_losing=False):
        self._servers = servers
        self._jobs_of_a_key = jobs_of_a_key
        self._seed = seed
        self._is_losing = is_losing
        self._claims = itertools.count(1)
        self._held = Counter()
        self._enqueued = defaultdict(list)
        self._done = set()
        self.jobs = len(KEYS) * jobs_of_a_key
        self.faults = []

    @property
    def is_over(self):
        return len(self._done) == self.jobs

    async def work(self, *others):
        """Let all work, beside other coroutines, until all jobs have succeeded."""
        turns = {key: asyncio.Lock() for key in KEYS}
        async with asyncio.timeout(150), asyncio.TaskGroup() as tasks:
            for key, first in itertools.product(KEYS, range(PRODUCERS_OF_A_KEY)):
                tasks.create_task(self._produce(key, first, turns[key]))
            for number in range(HOLDERS):
                tasks.create_task(self._hold(random.Random(self._seed * 1000 + number)))
            for other in others:
                tasks.create_task(other)

    async def _patiently(self, verb, *arguments, once=None):
        """Make a call until it is answered, as a client does."""
        options = {} if once is None else {"once": once}
        while True:
            try:
                return await verb(*arguments, **options)
            except ServiceError:
                if once is not None:
                    options["once"] = once._replace(is_repeat=True)
                await asyncio.sleep(0.01)

    async def _produce(self, key, first, turn):
        place, numbers = KEYS.index(key), iter(range(first, self._jobs_of_a_key, PRODUCERS_OF_A_KEY))
        while some := list(itertools.islice(numbers, random.choice([1, 2]))):
            async with turn:  # so that the order of enqueues is known
                self._enqueued[key] += some
                jobs = [
                    new_job(b"%d %d" % (place, number), key=key, priority=number % 3 + 1, attempts=1000)
                    for number in some
                ]
                once = IdempotencyKey(os.urandom(16), 600_000) if self._is_losing else None
                await self._patiently(random.choice(self._servers).enqueue_jobs, QUEUE, jobs, once=once)

    async def _hold(self, lot):
        while not self.is_over:
            claim = Claim(f"host:1:1:worker:{next(self._claims)}", 120_000)
            try:
                found = await lot.choice(self._servers).dequeue_jobs(QUEUE, lot.choice([1, 4]), claim)
            except ServiceError:
                continue
            for job in found.jobs:
                self._begin(*map(int, job.body.split()))
            await asyncio.sleep(lot.choice([0, 0.002]))
            for job in found.jobs:
                await self._end(lot, claim, job)
            if not found.jobs:
                await asyncio.sleep(0.01)

    def _begin(self, place, number):
        key = KEYS[place]
        self._held[place] += 1
        if key is None:
            return
        if key.max_running is not None and self._held[place] > key.max_running:
            self.faults.append(f"{self._held[place]} of {key} were held at once")
        before = itertools.takewhile(lambda other: other != number, self._enqueued[key])
        if key.is_ordered and any((place, other) not in self._done for other in before):
            self.faults.append(f"{number} of {key} was handed out too early")

    async def _end(self, lot, claim, job):
        place, number = map(int, job.body.split())
        ack = StoredAck(JobDescriptor.parse(job.descriptor), claim.descriptor, "", lot.choice([0, 20]), False)
        self._held[place] -= 1
        is_failing = lot.random() < FAILING_SHARE
        if not is_failing:
            self._done.add((place, number))
        lists = ([], [ack]) if is_failing else ([ack], [])
        await self._patiently(lot.choice(self._servers).ack_dequeued_jobs, QUEUE, *lists)

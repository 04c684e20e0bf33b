"""Producers and holders of jobs with keys, and a check of what they saw: limits, rates, order, nothing lost."""

import contextlib
import itertools
import random
import threading
import time
from collections import defaultdict
from typing import NamedTuple

from pinlater import Client, JobState
from pinlater.client import Ack, NewJob
from pinlater.errors import PinLaterError
from pinlater.model.keys import JobKey
from pinlater.model.rates import parse_rate
from tests.support.server import wait_for

QUEUE = "keyed"
FAILING_SHARE = 0.1
RETRY_DELAYS = (0.0, 0.02)
ATTEMPTS = 1000


class Hold(NamedTuple):
    """That somebody had a job, from the answer to his dequeue until he sent the ack; monotonic seconds.

    ``started_ms`` is when the store says that he got it, of jobs whose key has a rate.
    """

    key: JobKey | None
    number: int
    begins: float
    ends: float
    is_success: bool
    started_ms: int | None = None


class KeyedLoad:
    """Producers and holders, all of them threads, and what they saw.

    Args:
        servers: addresses of all.
        keys: each has a producer of its own, which enqueues one call after the other.
        jobs: how many of each key.
        lease_seconds: how long a holder may count on a job.
        holders: how many there are.

    Attributes:
        holds: in the order of their ends.
    """

    def __init__(self, servers, keys, jobs, lease_seconds, holders=16):
        self._servers = servers
        self._keys = keys
        self._jobs = jobs
        self._lease_seconds = lease_seconds
        self._is_over = threading.Event()
        self.holds = []
        self.names = {}
        self._done = set()
        self._producers = [threading.Thread(target=self._produce, args=(key,)) for key in keys]
        self._holders = [threading.Thread(target=self._hold, args=(number,)) for number in range(holders)]

    @contextlib.contextmanager
    def at_work(self, seconds):
        """Let all work while the block runs, and until all jobs have succeeded, for so long at most."""
        for thread in (*self._producers, *self._holders):
            thread.start()
        try:
            yield
            for thread in self._producers:
                thread.join()
            wait_for(self._is_done, seconds)
        finally:
            self._is_over.set()
            for thread in (*self._producers, *self._holders):
                thread.join()

    @property
    def succeeded(self):
        """How many jobs have succeeded."""
        return len(self._done)

    def _is_done(self):
        return self.succeeded == len(self._keys) * self._jobs

    def _produce(self, key):
        chance = random.Random(str(key))
        with Client(self._servers, timeout=60, connect_timeout=10) as client:
            number = 0
            while number < self._jobs and not self._is_over.is_set():
                count = min(chance.choice([1, 1, 5]), self._jobs - number)
                bodies = [f"{self._keys.index(key)} {number + at}".encode() for at in range(count)]
                jobs = [NewJob(body, chance.randint(1, 2), attempts=ATTEMPTS, key=key) for body in bodies]
                for name, body in zip(client.enqueue_jobs(QUEUE, jobs), bodies, strict=True):
                    self.names[name] = body
                number += count

    def _hold(self, number):
        chance = random.Random(number)
        with Client(self._servers, timeout=60, connect_timeout=10, source=f"holder{number}") as client:
            while not self._is_over.is_set():
                try:
                    jobs = client.dequeue_jobs(QUEUE, chance.choice([1, 3]), wait=0.5, lease=self._lease_seconds)
                except PinLaterError:
                    time.sleep(0.01)
                    continue
                begins = time.monotonic()
                for job in jobs:
                    self._end(client, job, begins, is_failing=chance.random() < FAILING_SHARE, chance=chance)

    def _end(self, client, job, begins, *, is_failing, chance):
        place, number = map(int, job.body.split())
        key = self._keys[place]
        started_ms = self._started(client, job) if key is not None and key.rate is not None else None
        ack = Ack(job.descriptor, job.claim, retry_delay=chance.choice(RETRY_DELAYS) if is_failing else 0.0)
        ends = min(time.monotonic(), begins + self._lease_seconds / 2)  # the lease began before the answer came
        while not self._is_over.is_set():
            try:
                client.ack(QUEUE, () if is_failing else (ack,), (ack,) if is_failing else ())
                break
            except PinLaterError:
                time.sleep(0.02)
        self.holds.append(Hold(key, number, begins, ends, not is_failing, started_ms))
        if not is_failing:
            self._done.add((place, number))

    @staticmethod
    def _started(client, job):
        with contextlib.suppress(PinLaterError):
            info = client.lookup([job.descriptor]).get(job.descriptor)
            if info is not None and info.claim == job.claim:
                return info.updated_at_ms
        return None

    def faults(self):
        """Return a sentence for everything that must not have been."""
        by_key = defaultdict(list)
        for hold in self.holds:
            by_key[hold.key].append(hold)
        faults = []
        for key, holds in by_key.items():
            if key is not None and key.max_running is not None:
                faults += _over_limit(key, holds)
            if key is not None and key.rate is not None:
                faults += _too_fast(key, holds)
            if key is not None and key.is_ordered:
                faults += _out_of_order(key, holds)
        return faults

    def unfinished(self):
        """Return the names of the jobs that have not succeeded, as the server has it."""
        names = list(self.names)
        with Client(self._servers, timeout=60) as client:
            found = {}
            for start in range(0, len(names), 1000):
                found |= client.lookup(names[start : start + 1000])
        return [name for name in names if name not in found or found[name].state is not JobState.SUCCEEDED]


def _over_limit(key, holds):
    changes = sorted([(hold.begins, 1) for hold in holds] + [(hold.ends, -1) for hold in holds])
    for (at, _), running in zip(changes, itertools.accumulate(step for _, step in changes), strict=True):
        if running > key.max_running:
            yield f"{key}: {running} were held at once, at {at:.3f}"


def _too_fast(key, holds):
    most, seconds = parse_rate(key.rate)
    starts = sorted(hold.started_ms for hold in holds if hold.started_ms is not None)
    if not starts:
        yield f"{key}: no start was seen"
    for first, last in zip(starts, starts[most:], strict=False):
        if last < first + seconds * 1000:
            yield f"{key}: {most + 1} were started within {last - first} ms"


def _out_of_order(key, holds):
    """No job is handed out before all that were enqueued before it have been acknowledged as succeeded."""
    done_at = {}
    for hold in holds:
        if hold.is_success:
            done_at[hold.number] = min(hold.ends, done_at.get(hold.number, hold.ends))
    latest_before = list(itertools.accumulate((done_at[number] for number in sorted(done_at)), max))
    for hold in holds:
        if hold.number and hold.begins < latest_before[hold.number - 1]:
            yield f"{key}: {hold.number} was handed out before {hold.number - 1} had succeeded"

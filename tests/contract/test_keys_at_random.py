"""Random calls about jobs with keys: no limit is passed, no order broken, and nothing waits for ever.

``HYPOTHESIS_PROFILE=thorough`` makes 50 times as many.
"""

import random
from collections import defaultdict

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import WAITS_FOR_KEY_MS, JobKey
from pinlater.model.queues import QueueChange
from pinlater.model.rates import parse_rate
from pinlater.protocol.messages import IN_PROGRESS, PENDING
from tests.support.bench import LEASE_MS, QUEUE, new_job
from tests.support.examples import IS_THOROUGH
from tests.support.stores import KEYED_HOMES

STEPS = 200
STEPS_A_CHECK = 4


@pytest.fixture(scope="module", params=KEYED_HOMES)
def home_kind(request):
    return KEYED_HOMES[request.param]


ORDERED = JobKey("ordered", 1, is_ordered=True)
KEYS = [
    ORDERED,
    JobKey("one", 1),
    JobKey("three", 3),
    JobKey("any"),
    JobKey("flood"),
    JobKey("rated", rate="2/s"),
    JobKey("rated, at most two", 2, rate="10/s"),
    JobKey("mixed"),
    JobKey("mixed", 1),
    JobKey("mixed", 5),
    JobKey("mixed", 1, is_ordered=True),
    None,
]


VERBS = {
    "put": 4,
    "take": 8,
    "ack": 6,
    "fail": 3,
    "give_back": 2,
    "release": 0.3,
    "expire": 0.3,
    "delete": 0.5,
    "delete_held": 0.3,
    "cancel": 0.5,
    "reschedule": 1,
    "retry_by_hand": 0.3,
    "pass_time": 4,
    "resize": 0.5,
}
"""How often each call is made, relatively."""


class RandomCalls:
    """Makes calls, and knows what may come of them.

    Args:
        bench: of the store.
        seed: of the randomness.
    """

    def __init__(self, bench, seed):
        self.bench = bench
        self.random = random.Random(seed)
        self.keys = {}
        self.held = set()
        self.ordered = []
        self.checked = 0
        self.starts = defaultdict(list)

    def put(self):
        jobs = []
        for _ in range(self.random.randint(1, 12)):
            key = self.random.choice(KEYS)
            later = self.random.random() < 0.2
            due = self.bench.clock.now_ms + self.random.randint(1, 5000) if later else None
            jobs.append(new_job(key=key, priority=self.random.randint(1, 3), run_after_ms=due, attempts=3))
        for name, job in zip(self.bench.put(*jobs), jobs, strict=True):
            self.keys[name] = job.key
            if job.key == ORDERED:
                self.ordered.append(name)

    def take(self):
        for name in self.bench.take_names(self.random.randint(1, 10)):
            assert name not in self.held
            self.held.add(name)
            key = self.keys[name]
            if key is not None and key.rate is not None:
                self.check_rate(key)
            if key == ORDERED:
                assert name == self.ordered[0], "the first of its key that is not finished"

    def check_rate(self, key):
        (most, seconds), starts = parse_rate(key.rate), self.starts[key]
        starts.append(self.bench.clock.now_ms)
        assert len(starts) <= most or starts[-1] >= starts[-1 - most] + 1000 * seconds

    def end(self, name):
        self.held.discard(name)
        if name in self.ordered and self.bench.state(name) not in {PENDING, IN_PROGRESS}:
            self.ordered.remove(name)

    def some_held(self):
        return self.random.sample(sorted(self.held), min(len(self.held), self.random.randint(1, 4)))

    def ack(self):
        names = self.some_held()
        self.bench.ack(*names)
        for name in names:
            self.end(name)

    def fail(self):
        names = self.some_held()
        self.bench.fail(*names, retry_delay_ms=self.random.choice([0, 0, 3000]))
        for name in names:
            self.end(name)

    def give_back(self):
        for name in self.some_held():
            self.bench.checkpoint(name, move_to_pending=True)
            self.end(name)

    def expire(self):
        self.bench.clock.advance(LEASE_MS + 1)
        self.bench.reap()
        for name in sorted(self.held):
            self.end(name)

    def delete(self):
        waiting = self.waiting()
        for name in self.random.sample(waiting, min(2, len(waiting))):
            self.bench.delete_these_jobs(QUEUE, [JobDescriptor.parse(name)], PENDING)
            self.end(name)

    def delete_held(self):
        for name in self.some_held()[:1]:
            self.bench.delete_these_jobs(QUEUE, [JobDescriptor.parse(name)], IN_PROGRESS)
            self.end(name)

    def cancel(self):
        names = [*self.some_held()[:1], *self.waiting()]
        for name in self.random.sample(names, min(2, len(names))):
            self.bench.cancel(name)
            if name not in self.held:
                self.end(name)

    def release(self):
        self.bench.release_claims(QUEUE, "worker")
        for name in sorted(self.held):
            self.end(name)

    def reschedule(self):
        waiting = self.waiting()
        due = self.random.choice([None, self.bench.clock.now_ms + self.random.randint(1, 5000)])
        some = self.random.sample(waiting, min(5, len(waiting)))
        self.bench.schedule_jobs(QUEUE, [JobDescriptor.parse(name) for name in some], due)

    def retry_by_hand(self):
        for priority in (1, 2, 3):
            self.bench.retry(priority=priority, attempts=2, limit=3)
        for name in self.waiting():
            key = self.keys[name]
            if key == ORDERED and name not in self.ordered:
                self.keys[name] = JobKey("ordered again")  # behind those that have come since: no order to check

    def records(self):
        """Look at all jobs, in one call: hundreds of calls would be most of what the test takes."""
        return self.bench.lookup_jobs([JobDescriptor.parse(name) for name in self.keys])

    def waiting(self):
        return [
            name
            for name, record in zip(self.keys, self.records(), strict=True)
            if record is not None and record.state == PENDING
        ]

    def resize(self):
        """Let the queue use another number of shards, as far as there are several."""
        count = self.random.randint(0, 2)
        self.bench.change_queue_settings(QUEUE, QueueChange(shards=count))
        self.bench.backend.apply_settings(self.bench.queue_settings())

    def pass_time(self):
        self.bench.clock.advance(self.random.choice([1, 100, 4000]))

    def check_limits(self):
        through, running = defaultdict(int), defaultdict(int)
        for record in self.records():
            if record is None or record.key is None or record.key.max_running is None or record.key.text == "mixed":
                continue  # a lower limit is not promised beside a higher one
            if record.state == IN_PROGRESS:
                running[record.key] += 1
            if record.state == PENDING and record.run_after_ms < WAITS_FOR_KEY_MS:
                through[record.key] += 1
        for key in running.keys() | through.keys():
            assert running[key] + through[key] <= key.max_running, key
            self.checked += 1

    def drain(self):
        """Run all that is left; a job that waits for ever would be left over."""
        for _ in range(3000):
            self.take()
            if not self.held and self.bench.count(PENDING) == 0:
                return
            self.bench.clock.advance(500)
            names = sorted(self.held)
            self.bench.ack(*names)
            for name in names:
                self.end(name)
        raise AssertionError(f"{self.bench.count(PENDING)} jobs were left")


@pytest.mark.parametrize("seed", range(150 if IS_THOROUGH else 3))
def test_limits_and_order_hold_and_nothing_waits_for_ever(backend, seed):
    calls = RandomCalls(backend, seed)
    for step in range(STEPS):
        getattr(calls, calls.random.choices(list(VERBS), [*VERBS.values()])[0])()
        if step % STEPS_A_CHECK == 0:
            calls.check_limits()
    calls.drain()
    calls.check_limits()
    assert calls.checked > STEPS / STEPS_A_CHECK
    assert backend.counts()[PENDING] == backend.counts()[IN_PROGRESS] == 0

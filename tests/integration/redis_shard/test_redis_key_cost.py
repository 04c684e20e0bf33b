"""How many commands Redis carries out for jobs with keys: counts, which do not drift."""

import pytest

from pinlater.model.keys import JobKey
from tests.support.bench import QUEUE, ack_of, new_job
from tests.support.redis_bench import CLAIM

ASKING = {"evalsha", "script|load", "info", "config|resetstat"}

TURNS, LIMITED, ORDERED = JobKey("a"), JobKey("a", 2), JobKey("a", 1, is_ordered=True)


class Commands:
    """Makes calls, and counts the commands that Redis carries out for them."""

    def __init__(self, bench, service, shard):
        self._bench = bench
        self._service = service
        self._shard = shard

    def _count(self, call):
        with self._service.client() as client:
            client.config_resetstat()
            result = self._bench.run(call)
            found = client.info("commandstats").items()
        return sum(each["calls"] for name, each in found if name.removeprefix("cmdstat_") not in ASKING), result

    def enqueue(self, *keys):
        return self._count(self._shard.enqueue_jobs(QUEUE, [new_job(key=key) for key in keys]))[0]

    def claim(self, limit=1):
        count, found = self._count(self._shard.dequeue_jobs(QUEUE, limit, CLAIM))
        assert found.jobs
        return count, [job.descriptor for job in found.jobs]

    def ack(self, *names):
        return self._count(self._shard.ack_dequeued_jobs(QUEUE, [ack_of(name) for name in names], []))[0]

    def of_one(self, key):
        """Return how many commands it takes to enqueue a job, to claim the next one, and to acknowledge that."""
        enqueued = self.enqueue(key)
        claimed, names = self.claim()
        return [enqueued, claimed, self.ack(*names)]


@pytest.fixture
def commands(bench, service, shard):
    """Count commands; the first job of a queue, which may take more, is over."""
    commands = Commands(bench, service, shard)
    commands.of_one(None)
    return commands


def more_than(plain, keyed):
    return [own - other for own, other in zip(keyed, plain, strict=True)]


@pytest.mark.parametrize("key", [TURNS, LIMITED, ORDERED])
def test_a_job_alone_with_its_key_takes_few_commands_more_than_one_without(commands, key):
    assert more_than(commands.of_one(None), commands.of_one(key)) == [4, 5, 4]


@pytest.mark.parametrize(
    ("key", "running", "more"), [(TURNS, 40, [7, 8, 6]), (LIMITED, 1, [8, 8, 11]), (ORDERED, 0, [9, 8, 11])]
)
def test_it_takes_no_more_commands_the_more_jobs_of_a_key_wait_or_run(commands, key, running, more):
    plain = commands.of_one(None)
    commands.enqueue(*[key] * 100)
    if running:
        commands.claim(running)
    assert more_than(plain, commands.of_one(key)) == more


@pytest.mark.parametrize("key", [TURNS, LIMITED, ORDERED])
def test_an_enqueue_of_jobs_of_busy_keys_takes_few_commands_for_each_key(commands, key):
    keys = [key._replace(text=str(number)) for number in range(50)]
    commands.enqueue(*keys, *keys, *keys)
    assert commands.enqueue(*keys) <= 20 + len(keys) * (4 if key is ORDERED else 3)

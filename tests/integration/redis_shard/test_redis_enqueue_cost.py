"""What the store does for an enqueue of one plain job, the most frequent call: counts, which do not drift."""

import sys
from pathlib import Path

import pinlater
from pinlater.model.jobs import NewJob
from pinlater.server.backends.records import IdempotencyKey
from pinlater.server.backends.redis import RedisEndpoint, RedisShard
from pinlater.server.backends.sharded import ShardedStore, ShardSpec
from pinlater.server.backends.store_options import StoreOptions
from tests.support.bench import QUEUE

OURS = str(Path(pinlater.__file__).parent)
ENQUEUES = 20

MOST_CALLS = 50
"""Functions of ours that the store calls, those included that go on after a wait. Who adds one has to say why.

One of them tells which shards the queue uses.
"""

COMMANDS = {"evalsha": 1, "time": 1, "get": 2, "incrby": 1, "hset": 2, "zadd": 1, "set": 1}
"""What Redis carries out; the two commands that ask for it are left out."""


class Calls:
    """Counts calls of functions of ours."""

    def __init__(self):
        self.count = 0

    def __call__(self, frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            self.count += 1


def key_of(number):
    return IdempotencyKey(number.to_bytes(16, "big"), 600_000)


def store_on(bench, service):
    async def make():
        store = ShardedStore("redis", lambda spec: RedisShard(spec.name, spec.endpoint, StoreOptions(3)))
        store.update([ShardSpec("1", RedisEndpoint(("127.0.0.1", service.port)))])
        await store.create_queue(QUEUE)
        return store

    return bench.run(make())


def test_one_enqueue_calls_no_more_functions_than_it_has_to(bench, service):
    store = store_on(bench, service)

    async def fewest_calls():
        counts = []
        for number in range(ENQUEUES):
            calls = Calls()
            sys.setprofile(calls)
            await store.enqueue_jobs(QUEUE, [NewJob(b"{}")], once=key_of(number))
            sys.setprofile(None)
            counts.append(calls.count)
        await store.close()
        return min(counts)

    assert bench.run(fewest_calls()) <= MOST_CALLS


def test_one_enqueue_takes_no_more_commands_than_it_has_to(bench, service):
    store = store_on(bench, service)

    async def enqueue_all():
        for number in range(ENQUEUES):
            await store.enqueue_jobs(QUEUE, [NewJob(b"{}")], once=key_of(number))
        await store.close()

    with service.client() as client:
        client.config_resetstat()
        bench.run(enqueue_all())
        found = {name.removeprefix("cmdstat_"): each["calls"] for name, each in client.info("commandstats").items()}
    assert {name: found.get(name, 0) / ENQUEUES for name in COMMANDS} == COMMANDS

"""Several shards shared by several servers: limits and priorities are those of the whole store."""

import asyncio

import pytest

from pinlater.model.attempts import StoredAck
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import IN_PROGRESS
from pinlater.server.backends.records import Claim, JobFilter
from tests.support.bench import QUEUE, new_job
from tests.support.stores import SHARDED_STORES

pytestmark = pytest.mark.usefixtures("patience")

ROUNDS = 10


@pytest.fixture(params=SHARDED_STORES)
def in_store(request, tmp_path):
    """Run ``scenario(servers)`` with so many servers on one store of shards with these names."""
    ends = []

    def run(scenario, names, count):
        fleet, end = SHARDED_STORES[request.param].fleets(tmp_path, names)
        ends.append(end)

        async def whole():
            servers = [fleet() for _ in range(count)]
            try:
                await servers[0].create_queue(QUEUE)
                async with asyncio.timeout(120):
                    await scenario(servers)
            finally:
                await asyncio.gather(*(server.close() for server in servers))

        asyncio.run(whole())

    yield run
    for end in ends:
        end()


def claim(number):
    return Claim(f"h:1:1:w{number}:1", 60_000)


def priority_of(job):
    return JobDescriptor.parse(job.descriptor).priority


def test_no_more_run_at_once_than_may_whoever_claims_them_wherever(in_store):
    async def scenario(servers):
        for _ in range(40):  # each batch goes to some shard
            await servers[0].enqueue_jobs(QUEUE, [new_job()])
        for _ in range(ROUNDS):
            found = await asyncio.gather(
                *(
                    server.dequeue_jobs(QUEUE, 1, claim(number), max_running=2)
                    for number, server in enumerate(servers * 4)
                )
            )
            jobs = [job for one in found for job in one.jobs]
            assert len(jobs) == 2 == await servers[0].count_jobs(QUEUE, JobFilter(IN_PROGRESS))
            acks = [StoredAck(JobDescriptor.parse(job.descriptor), None, "", 0, is_final=True) for job in jobs]
            await servers[0].ack_dequeued_jobs(QUEUE, acks, [])

    in_store(scenario, "12", 3)


def test_one_server_locks_a_queue_and_the_lock_ends(in_store):
    async def scenario(servers):
        shards = [next(iter(server.group.registry)).shard for server in servers]
        tokens = await asyncio.gather(*(shard.lock_queue(QUEUE, 60_000) for shard in shards))
        [token] = [token for token in tokens if token is not None]
        await shards[0].unlock_queue(QUEUE, token + 1)
        assert await shards[1].lock_queue(QUEUE, 60_000) is None, "that was not its own"
        await shards[0].unlock_queue(QUEUE, token)
        assert await shards[1].lock_queue(QUEUE, 1) is not None
        while await shards[0].lock_queue(QUEUE, 60_000) is None:  # the server of the lock may be dead
            await asyncio.sleep(0.01)

    in_store(scenario, "1", 3)


def test_the_first_priority_of_all_shards_comes_before_the_second_of_any(in_store):
    async def scenario(servers):
        for number in range(72):
            await servers[0].enqueue_jobs(QUEUE, [new_job(priority=1 if number % 6 == 0 else 3)])
        later = int(asyncio.get_running_loop().time()) + 4_000_000_000_000
        await servers[0].enqueue_jobs(QUEUE, [new_job(priority=2, run_after_ms=later)] * 4)
        shown = await servers[1].peek_jobs(QUEUE, 100)
        taken = []
        for number in range(18):
            taken += (await servers[number % 2].dequeue_jobs(QUEUE, 4, claim(number))).jobs
        wanted = [1] * 12 + [3] * 60
        assert ([priority_of(job) for job in taken], [priority_of(job) for job in shown]) == (wanted, wanted)
        assert len({job.descriptor for job in taken}) == 72
        last = await servers[0].dequeue_jobs(QUEUE, 4, claim(99), want_next_due=True)
        assert (last.jobs, last.next_due_ms, last.has_more) == ([], later, False)

    in_store(scenario, "1234", 2)

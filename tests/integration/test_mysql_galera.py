"""Several servers, each on another node of a Galera cluster, which finds out at the commit who was in whose way."""

import asyncio
import itertools
from collections import Counter

import pytest

from pinlater.errors import ServiceError
from pinlater.model.attempts import StoredAck
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.protocol.messages import IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.records import Claim, JobFilter
from tests.support.bench import QUEUE, FakeClock, new_job
from tests.support.galera import Galera
from tests.support.mysql_bench import endpoint_of, fresh_prefix, make_fleet

_claims = itertools.count(1)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    galera = Galera(tmp_path_factory.mktemp("galera"))
    yield galera.nodes
    galera.end()


def claim():
    return Claim(f"host:1:1:worker:{next(_claims)}", 60_000)


def with_servers(nodes, scenario):
    """Run ``scenario(servers)`` with a server on each node."""

    async def run():
        clock, prefix = FakeClock(), fresh_prefix()
        servers = [make_fleet([endpoint_of(node)], clock, prefix=prefix) for node in nodes]
        await servers[0].create_queue(QUEUE)
        try:
            return await scenario(servers)
        finally:
            await asyncio.gather(*(server.close() for server in servers))

    return asyncio.run(run())


async def patiently(verb, *arguments, **options):
    """Make a call until it succeeds: nodes that are in each other's way for seconds say so."""
    while True:
        try:
            return await verb(*arguments, **options)
        except ServiceError:
            await asyncio.sleep(0.01)


async def dequeue(server):
    """Claim jobs; each attempt has a claim of its own, as in the server, for a failed one may be released later."""
    held = claim()
    return held, await server.dequeue_jobs(QUEUE, 7, held)


def test_no_job_has_two_holders_and_all_are_settled_on_the_other_node(nodes):
    async def consume(server, other, taken):
        while True:
            held, found = await patiently(dequeue, server)
            names = [job.descriptor for job in found.jobs]
            taken += names
            if not names:
                return
            acks = [StoredAck(JobDescriptor.parse(name), held.descriptor, "", 0, False) for name in names]
            assert (await patiently(other.ack_dequeued_jobs, QUEUE, acks, [])).changed == len(names)

    async def scenario(servers):
        batches = await asyncio.gather(
            *(server.enqueue_jobs(QUEUE, [new_job(priority=n % 3 + 1) for n in range(50)]) for server in servers * 3)
        )
        names = [name for batch in batches for name in batch]
        taken = []
        async with asyncio.timeout(120):
            while len(taken) < len(names):
                pairs = [(server, other) for server, other in itertools.permutations(servers)]
                await asyncio.gather(*(consume(server, other, taken) for server, other in pairs))
        assert sorted(taken) == sorted(names)
        assert await servers[1].count_jobs(QUEUE, JobFilter(SUCCEEDED)) == len(names)

    with_servers(nodes, scenario)


def test_what_one_node_was_told_all_know(nodes):
    async def scenario(servers):
        for turn in range(30):
            first, second = servers if turn % 2 else servers[::-1]
            [name] = await first.enqueue_jobs(QUEUE, [new_job()])
            [record] = await second.lookup_jobs([JobDescriptor.parse(name)])
            assert record.state == PENDING
            assert [job.descriptor for job in (await second.dequeue_jobs(QUEUE, 1, claim())).jobs] == [name]
            assert await first.count_jobs(QUEUE, JobFilter(PENDING)) == 0

    with_servers(nodes, scenario)


def test_a_limit_of_running_jobs_holds_over_all_nodes(nodes):
    async def scenario(servers):
        await servers[0].enqueue_jobs(QUEUE, [new_job() for _ in range(60)])
        for _ in range(3):
            await asyncio.gather(
                *(patiently(server.dequeue_jobs, QUEUE, 5, claim(), max_running=17) for server in servers * 4)
            )
            assert await servers[0].count_jobs(QUEUE, JobFilter(IN_PROGRESS)) == 17

    with_servers(nodes, scenario)


def test_the_limit_of_a_key_holds_over_all_nodes_and_nothing_waits_for_ever(nodes):
    keys, jobs = [JobKey("one", 1), JobKey("two", 2)], 20
    held, most, done = Counter(), Counter(), []

    async def consume(server, other):
        while len(done) < len(keys) * jobs:
            at, found = await patiently(dequeue, server)
            names = [(job.descriptor, job.body) for job in found.jobs]
            for _, text in names:
                held[text] += 1
                most[text] = max(most[text], held[text])
            await asyncio.sleep(0.005)
            for name, text in names:
                held[text] -= 1
                ack = StoredAck(JobDescriptor.parse(name), at.descriptor, "", 0, False)
                done.append(name)
                await patiently(other.ack_dequeued_jobs, QUEUE, [ack], [])

    async def scenario(servers):
        for key in keys:
            job = new_job(key.text.encode(), key=key)
            await asyncio.gather(
                *(patiently(servers[n % 2].enqueue_jobs, QUEUE, [job] * (jobs // 4)) for n in range(4))
            )
        async with asyncio.timeout(120):
            await asyncio.gather(*(consume(*pair) for pair in list(itertools.permutations(servers)) * 3))
        assert len(set(done)) == len(done)
        assert most[b"one"] == 1
        assert most[b"two"] <= 2
        assert await servers[1].count_jobs(QUEUE, JobFilter(SUCCEEDED)) == len(done)

    with_servers(nodes, scenario)


def test_a_key_is_unique_over_all_nodes(nodes):
    async def scenario(servers):
        for key in map(str, range(10)):
            answers = await asyncio.gather(
                *(patiently(server.enqueue_jobs, QUEUE, [new_job(unique_key=key)]) for server in servers * 3)
            )
            assert len({name for [name] in answers}) == 1

    with_servers(nodes, scenario)

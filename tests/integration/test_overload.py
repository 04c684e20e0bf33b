"""A store that is behind: what can wait is refused, clients come again, and nothing is lost."""

import asyncio

import pytest

from pinlater import AsyncClient
from pinlater.client.records import Ack, NewJob
from pinlater.errors import NoHealthyShards
from tests.support.server import ServerProcess

JOBS = 300


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = ServerProcess(tmp_path_factory.mktemp("overload") / "server", MAX_STORE_WAITING=2)
    yield server
    assert server.stop() == 0


def shed(server):
    """Return how many calls of each method were refused."""
    prefix = 'pinlater_calls_shed_total{method="'
    lines = [line.removeprefix(prefix) for line in server.page("/metrics")[1].splitlines() if line.startswith(prefix)]
    return {method: float(count) for method, count in (line.split('"} ') for line in lines)}


def test_dequeues_are_refused_and_nothing_is_lost(server):
    async def run():
        address = f"127.0.0.1:{server.port}"
        async with AsyncClient(address, connections=40, timeout=50, retries=1000) as client:
            await client.create_queue("q")
            enqueueing = asyncio.gather(*(client.enqueue_jobs("q", [NewJob(b"x")]) for _ in range(JOBS)))
            done = set()
            while len(done) < JOBS:
                found = await asyncio.gather(*(client.dequeue_jobs("q", 1) for _ in range(40)))
                jobs = [job for batch in found for job in batch]
                await asyncio.gather(*(client.ack("q", [Ack(job.descriptor, job.claim)]) for job in jobs))
                done |= {job.descriptor for job in jobs}
            return {name for (name,) in await enqueueing} == done

    assert asyncio.run(run())
    refused = shed(server)
    assert refused["dequeueJobs"] > 0
    assert "ackDequeuedJobs" not in refused


def test_without_retries_the_error_says_what_to_do(server):
    async def run():
        address = f"127.0.0.1:{server.port}"
        async with (
            AsyncClient(address, connections=40, timeout=50, retries=1000) as busy,
            AsyncClient(address, connections=40, timeout=50, retries=0) as client,
        ):
            await busy.create_queue("other")
            enqueueing = asyncio.gather(*(busy.enqueue_jobs("other", [NewJob(b"x")]) for _ in range(JOBS)))
            calls = (client.dequeue_jobs("other", 1) for _ in range(JOBS))
            answers = await asyncio.gather(*calls, return_exceptions=True)
            await enqueueing
            return answers

    refusals = [answer for answer in asyncio.run(run()) if isinstance(answer, Exception)]
    assert refusals
    assert {type(refusal) for refusal in refusals} == {NoHealthyShards}
    assert "the store is behind" in str(refusals[0])
    assert "try again later" in str(refusals[0])

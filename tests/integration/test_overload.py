"""A store that is behind: what can wait is refused, clients come again, and nothing is lost."""

import asyncio
import subprocess
import sys

import pytest

from pinlater import AsyncClient, Client
from pinlater.errors import NoHealthyShards
from pinlater.model.attempts import Ack
from pinlater.model.jobs import NewJob
from pinlater.model.state import JobState
from tests.support.server import ServerProcess, environment, wait_for

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


def test_a_worker_runs_all_jobs_all_the_same(server, tmp_path):
    (tmp_path / "busy_jobs.py").write_text(
        "from pinlater import Job\n\n\nclass Busy(Job, queue='busy'):\n    def run(self, context):\n        pass\n"
    )
    address = f"127.0.0.1:{server.port}"
    before = shed(server).get("dequeueJobs", 0)
    command = [sys.executable, "-m", "pinlater.worker.program", "busy_jobs.py", "--processes", "2"]
    command += ["--server", address]
    with Client(address) as client:
        client.create_queue("busy")
        with (tmp_path / "log").open("w") as log:
            worker = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=log, stderr=log)
        try:

            async def flood():
                enqueued = 0
                async with AsyncClient(address, connections=40, timeout=50, retries=1000) as producers:
                    body = NewJob(b'{"job": "Busy"}')
                    while enqueued < 800 or shed(server).get("dequeueJobs", 0) == before:
                        await asyncio.gather(*(producers.enqueue_jobs("busy", [body]) for _ in range(40)))
                        enqueued += 40
                return enqueued

            enqueued = asyncio.run(flood())
            wait_for(lambda: client.count("busy", JobState.SUCCEEDED) == enqueued, 40)
        finally:
            worker.terminate()
            assert worker.wait(40) == 0, (tmp_path / "log").read_text()


def test_without_retries_the_error_says_what_to_do(server):
    async def run():
        address = f"127.0.0.1:{server.port}"
        async with (
            AsyncClient(address, connections=40, timeout=50, retries=1000) as busy,
            AsyncClient(address, connections=40, timeout=50, connect_timeout=30, retries=0) as client,
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
    assert "the store is overloaded" in str(refusals[0])
    assert "try again later" in str(refusals[0])

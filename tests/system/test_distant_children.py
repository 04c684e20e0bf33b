"""Jobs that call jobs with keys, which lie on other shards, while servers are killed and a shard is away."""

import random

import pytest

from pinlater import Client, JobState
from pinlater.model.descriptor import JobDescriptor
from tests.support.server import ServerProcess
from tests.support.stores import SHARED_STORES
from tests.system.test_keys_under_kills import kill_by_chance
from tests.system.worker_program import Worker, job_module, put, ran, wait_for

pytestmark = pytest.mark.timeout(300)

PARENTS, PARTS = 30, 12
KILLS = 4

CALLS = job_module("""
import os, time
from pinlater import Constant, Job

SOON = Constant(0.05)


class Part(Job[int], queue="touch", key="customer", running_per_key=2, attempts=20, backoff=SOON):
    name: str
    number: int

    @property
    def customer(self):
        return self.number % 7

    def run(self, context):
        write(f"{self.name} {self.number}")
        while self.name == "held" and not os.path.exists("end"):
            time.sleep(0.02)
        return self.number


class Sum(Job[int], queue="steps", attempts=20, backoff=SOON):
    name: str
    parts: int

    def run(self, context):
        parts = [Part(name=self.name, number=number) for number in range(self.parts)]
        return sum(context.call_all(parts, name="part", batch_size=5))
""")


def results(client, jobs):
    found = client.lookup(jobs, include_result=True)
    return {found[job].result if found[job].state is JobState.SUCCEEDED else found[job].state for job in jobs}


@pytest.fixture(params=SHARED_STORES)
def servers(request, tmp_path):
    settings = SHARED_STORES[request.param](tmp_path, shards=3)
    servers = [ServerProcess(tmp_path / f"server{number}", **settings) for number in range(2)]
    yield servers
    for server in servers:
        server.kill()


def test_each_end_arrives_once_while_servers_are_killed(servers, tmp_path):
    (tmp_path / "calls.py").write_text(CALLS)
    addresses = [server.address for server in servers]
    with Client(addresses) as client:
        for queue in ("steps", "touch"):
            client.create_queue(queue)
        jobs = [put(client, "Sum", "steps", name=f"sum{number}", parts=PARTS) for number in range(PARENTS)]
        with Worker(tmp_path, "calls", "--server", ",".join(addresses), "--processes", 3, "--lease", 20) as worker:
            kill_by_chance(servers, random.Random(3), KILLS, (0.3, 1.0))
            wait_for(lambda: results(client, jobs) == {str(sum(range(PARTS))).encode()}, 200, lambda: worker.log)
    assert set(ran(tmp_path)) == {f"sum{parent} {part}" for parent in range(PARENTS) for part in range(PARTS)}


def test_the_end_waits_for_the_shard_of_the_parent(server_of_two_shards, two_shards, tmp_path):
    (tmp_path / "calls.py").write_text(CALLS)
    with Client(server_of_two_shards.address) as client:
        for queue in ("steps", "touch"):
            client.create_queue(queue)
        job = put(client, "Sum", "steps", name="held", parts=6)
        with Worker(tmp_path, "calls", "--server", server_of_two_shards.address, "--processes", 6) as worker:
            wait_for(lambda: len(ran(tmp_path)) == 6, what=lambda: worker.log)
            wait_for(lambda: client.lookup([job])[job].state is JobState.PENDING)
            place = int(JobDescriptor.parse(job).shard)
            away, other = two_shards[place - 1], two_shards[2 - place]
            away.kill()
            (tmp_path / "end").touch()
            with other.client() as redis:
                wait_for(lambda: redis.xlen(f"pinlater:{{{3 - place}}}:outgoing:{place}"))
                away.start()
                wait_for(lambda: "pinlater_ill_shards 0" in server_of_two_shards.page("/metrics")[1])
                wait_for(lambda: results(client, [job]) == {b"15"}, 100, lambda: worker.log)
                wait_for(lambda: not redis.exists(f"pinlater:{{{3 - place}}}:outgoing"))
    assert sorted(ran(tmp_path)) == [f"held {number}" for number in range(6)]

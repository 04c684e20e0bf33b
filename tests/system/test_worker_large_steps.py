"""Steps with large results in real workers, killed while they run and while they save: what was saved never runs again.

``PINLATER_TEST_KILLS`` and ``PINLATER_TEST_KILLS_ON`` as for ``test_worker_calls.py``.
"""

import json
import os
from collections import Counter

import pytest

from pinlater import Client, JobState
from pinlater.jobs.outside_steps import steps_name
from tests.support.server import ServerProcess
from tests.support.stores import STORES
from tests.system.worker_program import Worker, add_jobs, put, ran, wait_for

ROUNDS = int(os.environ.get("PINLATER_TEST_KILLS", "1"))
ON = os.environ.get("PINLATER_TEST_KILLS_ON", "sqlite").split(",")

pytestmark = pytest.mark.timeout(120 + 60 * ROUNDS)

TOTAL = sum(1000 + number for number in range(60))


@pytest.fixture(params=ON)
def place(request, tmp_path):
    add_jobs(tmp_path, "heavy")
    shards = {} if request.param == "sqlite" else {"shards": 2}
    with (
        ServerProcess(tmp_path / "server", **STORES[request.param].settings(tmp_path, **shards)) as server,
        Worker(tmp_path, "heavy", "--server", server.address, "--processes", 2, "--queue", "steps") as worker,
        Client(server.address) as client,
    ):
        client.create_queue("steps")
        yield client, tmp_path, worker


def test_wherever_it_is_killed_what_was_saved_never_runs_again(place):
    client, folder, worker = place
    kinds = ("Heavy", "HeavyLater")
    jobs = {
        f"{kind}{seed}": put(client, kind, "steps", name=f"{kind}{seed}", seed=seed)
        for kind in kinds
        for seed in range(5 * ROUNDS)
    }
    expected = list(jobs.values())
    wait_for(
        lambda: all(job.state.is_final for job in client.lookup(expected).values()),
        90 * ROUNDS,
        lambda: worker.log[-5000:],
    )
    found = client.lookup(expected, include_body=True, include_result=True)
    log = ran(folder)
    for name, job in jobs.items():
        assert found[job].state == JobState.SUCCEEDED, found[job].status
        assert json.loads(found[job].result) == TOTAL
        lines = [line.removeprefix(f"{name} ") for line in log if line.startswith(f"{name} ")]
        saved = set()
        for line in lines:
            run, what, number = line.split()
            assert what == "saved" or (run, number) not in saved, f"{name}: step {number} of run {run} ran again"
            if what == "saved":
                saved.add((run, number))
        begins = Counter(line for line in lines if "begin" in line)
        assert set(begins) == {f"{run} begin {number}" for run in (0, 1) for number in range(60)}
        assert client.read_messages(job, steps_name(0)) == []
        assert client.read_messages(job, steps_name(1)) != []
        assert len(found[job].body) < 20_000
    kills = sum("crash" in found[job].status for job in expected)
    assert kills >= len(expected) // 2, "hardly any was killed"

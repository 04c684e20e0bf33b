"""Keys of jobs with real worker processes: order, limits and turns."""

from collections import defaultdict

import pytest

from pinlater import JobState
from tests.support.server import ServerProcess
from tests.support.stores import KEYED_SETTINGS
from tests.system.worker_program import job_module, ran, wait_for

JOBS = job_module("""
import time
from pinlater import Constant, Job


class Ship(Job, queue="keys", key="customer", in_order=True, attempts=3, backoff=Constant(0.1)):
    customer: str
    number: int

    def run(self, context):
        write(f"begin {self.customer} {self.number}")
        if self.number % 3 == 0 and context.attempt < 3:
            raise ValueError("not yet")
        write(f"end {self.customer} {self.number}")


class Import(Job, queue="keys", key="customer", running_per_key=2):
    customer: str

    def run(self, context):
        write(f"begin {self.customer}")
        while open("ran.txt").read().count(f"begin {self.customer}") < 2:  # at least two can run at once
            time.sleep(0.01)
        time.sleep(0.05)
        write(f"end {self.customer}")


class Resize(Job, queue="keys", key="customer"):
    customer: str
    number: int

    def run(self, context):
        write(self.customer)
        # More than are handed out before the small ones, since the customers share what each dequeue takes.
        if self.customer == "large" and self.number >= 30:
            while open("ran.txt").read().count("small") < 5:
                time.sleep(0.01)
""")


@pytest.fixture(scope="module", params=KEYED_SETTINGS)
def server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    with ServerProcess(folder / "server", **KEYED_SETTINGS[request.param](folder)) as server:
        yield server


@pytest.fixture
def kinds(folder, client):
    """The job classes by name, and a module of them for workers."""
    (folder / "keys.py").write_text(JOBS)
    client.create_queue("keys")
    namespace = {}
    exec(JOBS, namespace)
    yield namespace
    client.delete_queue("keys", "open sesame")


@pytest.fixture
def run_all(folder, client, start):
    """Enqueue jobs, run them all in several processes, and return what they wrote."""

    def run(jobs, processes):
        count = client.enqueue_many(jobs, batch_size=7)
        worker = start("--processes", processes, modules=("keys",))
        wait_for(lambda: client.count("keys", JobState.SUCCEEDED) == count, what=lambda: worker.log)
        return ran(folder)

    return run


def test_jobs_of_an_ordered_key_run_in_order_although_they_are_retried(run_all, kinds):
    ship = kinds["Ship"]
    lines = run_all((ship(customer=name, number=number) for number in range(10) for name in "abc"), 6)
    for name in "abc":
        of_key = [line for line in lines if line.split()[1] == name]
        expected = []
        for number in range(10):
            expected += (3 if number % 3 == 0 else 1) * [f"begin {name} {number}"] + [f"end {name} {number}"]
        assert of_key == expected


def test_no_more_than_the_limit_of_a_key_run_at_once(run_all, kinds):
    lines = run_all((kinds["Import"](customer=name) for _ in range(20) for name in "ab"), 6)
    running, most = defaultdict(int), defaultdict(int)
    for what, name in map(str.split, lines):
        running[name] += 1 if what == "begin" else -1
        most[name] = max(most[name], running[name])
    assert most == {"a": 2, "b": 2}


def test_a_flood_of_one_key_does_not_hold_up_another(run_all, kinds):
    """The flood does not end before the others have run; which process runs its jobs sooner is up to the machine."""
    resize = kinds["Resize"]
    flood = [resize(customer="large", number=number) for number in range(400)]
    lines = run_all([*flood, *(resize(customer="small", number=number) for number in range(5))], 2)
    assert (lines.count("large"), lines.count("small")) == (400, 5)

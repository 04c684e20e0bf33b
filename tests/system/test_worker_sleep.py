"""Jobs that sleep, in real workers: they hold no process, and outlive the worker that they fell asleep in."""

import pytest

from pinlater import JobState
from tests.system.worker_program import await_state, environment_with, info, job_module, put, ran, wait_for

JOBS = job_module("""
import os
from pinlater import Job


class Nap(Job, queue="sleeps"):
    name: str
    seconds: float

    def run(self, context):
        context.step("lie down", write, f"{self.name} lies down")
        context.sleep_for(self.seconds, name="nap")
        write(f"{self.name} is up {context.attempt}")


class Touch(Job, queue="touch"):
    number: int

    def run(self, context):
        write(f"touch {self.number}")
""")
COFFEES = job_module("""
from pinlater import Constant, Job, retrying


class Coffee(Job, queue="sleeps", give_up_after=300):
    seconds: float

    async def run(self, context):
        await context.step("brew", retrying(self.brew, attempts=2, backoff=Constant(self.seconds)))
        context.sleep_for(self.seconds, name="cool")

    async def brew(self):
        write("brew")
        if len(open("ran.txt").readlines()) == 1:
            raise ValueError("cold")
""")


@pytest.fixture
def nap(folder, client):
    (folder / "naps.py").write_text(JOBS)
    return lambda name, seconds: put(client, "Nap", "sleeps", name=name, seconds=seconds)


def test_a_sleeping_job_holds_no_process_and_spends_no_attempt(start, client, folder, nap):
    long = [nap(f"long {number}", 3600) for number in range(3)]
    worker = start("--processes", 1, modules=("naps",))
    wait_for(lambda: len(ran(folder)) == 3, what=lambda: worker.log)
    short, other = nap("short", 1), put(client, "Touch", "touch", number=1)
    await_state(client, other, JobState.SUCCEEDED)
    await_state(client, short, JobState.SUCCEEDED)
    assert ran(folder).count("short lies down") == 1
    assert "short is up 1" in ran(folder)
    assert worker.stop() == 0, worker.log
    for job in long:
        about = info(client, job)
        assert (about.state, about.attempts_remaining) == (JobState.PENDING, 3)
        assert about.run_after_ms - about.created_at_ms >= 3_600_000


def test_a_job_wakes_in_another_worker(start, client, folder, nap):
    job = nap("it", 2)
    first = start("--processes", 1, modules=("naps",))
    wait_for(lambda: info(client, job).run_after_ms >= info(client, job).created_at_ms + 2000, what=lambda: first.log)
    client.change_queue("sleeps", paused=True)  # the first one may take longer to end than the job sleeps
    first.end()
    assert ran(folder) == ["it lies down"]
    start("--processes", 1, modules=("naps",))
    client.change_queue("sleeps", paused=False)
    await_state(client, job, JobState.SUCCEEDED)
    assert ran(folder) == ["it lies down", "it is up 1"]


def test_a_burst_does_not_wait_for_sleepers(start, client, folder, nap):
    job = nap("it", 3600)
    worker = start("--burst", "--processes", 1, modules=("naps",))
    assert worker.wait() == 0, worker.log
    assert ran(folder) == ["it lies down"]
    assert info(client, job).state is JobState.PENDING


@pytest.mark.parametrize("wrong_by", [3600, -3600])
@pytest.mark.parametrize("several", [(), ("--threads", 2), ("--concurrency", 2)])
def test_the_server_s_clock_decides_how_long_it_sleeps(start, client, folder, wrong_by, several):
    """A worker whose clock is ahead must not give up jobs that sleep, nor one whose clock is behind wake them."""
    (folder / "coffees.py").write_text(COFFEES)
    env = environment_with(folder, f"import time\nright = time.time\ntime.time = lambda: right() + {wrong_by}")
    coffee, long = put(client, "Coffee", "sleeps", seconds=1), put(client, "Coffee", "sleeps", seconds=200)
    worker = start("--processes", 1, *several, modules=("coffees",), env=env)
    await_state(client, coffee, JobState.SUCCEEDED)
    wait_for(lambda: info(client, long).run_after_ms > info(client, long).created_at_ms, what=lambda: worker.log)
    about = info(client, long)
    assert about.state is JobState.PENDING
    assert 200_000 <= about.run_after_ms - about.created_at_ms < 290_000

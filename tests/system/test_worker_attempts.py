"""Attempts of steps, and what an enqueue says of a job's attempts, in real workers."""

import pytest

from pinlater import Constant, JobState, RawJob
from pinlater.model.body_metadata import with_policy
from pinlater.model.policy import Policy
from tests.system.worker_program import await_state, info, job_module, put, ran

JOBS = job_module("""
import asyncio
import os
import signal
from pinlater import Constant, Job, retrying


def tried(name):
    with open("ran.txt") as file:
        return file.read().splitlines().count(name)


async def fetch(page):
    write(f"fetch {page}")
    await asyncio.sleep(0)
    if page == 1 and tried("fetch 1") < 3:
        raise OSError("not yet")


def load():
    write("load")
    if tried("load") == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if tried("load") < 5:
        raise OSError("not yet")


class Import(Job, queue="attempts", attempts=2, backoff=Constant(0.1)):
    async def run(self, context):
        steps = [context.step("fetch", retrying(fetch, attempts=3, backoff=Constant(0.1)), page) for page in range(3)]
        await asyncio.gather(*steps)
        context.step("load", retrying(load, attempts=4, backoff=Constant(0.1)))


class Reports(Job, queue="attempts", attempts=1):
    async def run(self, context):
        context.publish(stage="begun")
        for done in range(3):
            context.progress(done, 3)
        context.publish(stage="last")
        raise ValueError("at the third")


class Stuck(Job, queue="attempts"):
    async def run(self, context):
        await asyncio.sleep(60)
""")


@pytest.fixture
def start_worker(folder, client, start):
    (folder / "attempts.py").write_text(JOBS)
    client.create_queue("attempts")
    return lambda *options: start("--processes", 1, *options, modules=("attempts",))


@pytest.fixture
def worker(start_worker):
    return start_worker()


def test_steps_that_fail_spend_no_attempt_of_the_job_and_a_crash_gives_them_all_of_theirs(worker, client, folder):
    job = put(client, "Import", "attempts")
    await_state(client, job, JobState.SUCCEEDED)
    # One load fails, the next one dies with its process: in the second attempt, four are to be had again.
    assert sorted(ran(folder)) == ["fetch 0", *["fetch 1"] * 3, "fetch 2", *["load"] * 5]
    about = info(client, job)
    assert (about.attempts_allowed, about.attempts_remaining) == (3, 2)
    assert ["crash 1: " in failed.error for failed in about.failed_attempts] == [True]


def test_an_enqueue_says_how_long_and_when(worker, client):
    body = with_policy(b'{"job":"Stuck"}', Policy(Constant(0.1), timeout=0.2))
    job = client.enqueue(RawJob(body=body), queue="attempts", attempts=2).descriptor
    await_state(client, job, JobState.FAILED)
    failed = info(client, job).failed_attempts
    assert [(each.attempt, each.error) for each in failed] == [
        (number, "JobTimeout: it ran for longer than its timeout of 0.2 s") for number in (1, 2)
    ]


@pytest.mark.parametrize("options", [(), ("--threads", 2), ("--concurrency", 2)])
def test_the_last_reports_of_a_job_that_fails_are_shown(start_worker, client, options):
    start_worker(*options)
    job = put(client, "Reports", "attempts")
    await_state(client, job, JobState.FAILED)
    shown = client.lookup([job], include_body=True)[job]
    assert (shown.progress.done, shown.published) == (2, {"stage": "last"})

"""What a project does in each job process when it starts and when it ends."""

import pytest

from pinlater.model.state import JobState
from tests.system.worker_program import await_state, put, ran, wait_for

HOOKS = """
import time
from pathlib import Path
from jobs import write


def opened():
    write("opened")


def closed():
    write("closed")


def broken():
    if not Path("mended").exists():
        raise OSError("the pool is away")


def endless():
    write("endless")
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def hooks(folder):
    (folder / "hooks.py").write_text(HOOKS)


@pytest.mark.parametrize("several", [(), ("--threads", 3)])
def test_they_surround_the_jobs_of_a_process(start, client, folder, several):
    worker = start("--processes", 1, "--on-start", "hooks:opened", "--on-stop", "hooks:closed", *several)
    await_state(client, put(client, "Touch", "touch", number=1), JobState.SUCCEEDED)
    assert worker.stop() == 0
    assert ran(folder) == ["opened", "touch 1", "closed"]


def test_a_process_whose_start_fails_is_started_again(start, client, folder):
    worker = start("--processes", 1, "--on-start", "hooks:broken")
    text = "--on-start hooks:broken failed: OSError: the pool is away"
    wait_for(lambda: worker.log.count(text) > 1, what=lambda: worker.log)
    (folder / "mended").touch()
    await_state(client, put(client, "Touch", "touch", number=1), JobState.SUCCEEDED)
    assert worker.stop() == 0


def test_an_end_that_fails_or_hangs_costs_nothing(start, client, folder):
    hooks = ("--on-stop", "hooks:broken", "--on-stop", "hooks:closed", "--on-stop", "hooks:endless")
    worker = start("--processes", 1, *hooks)
    job = put(client, "Touch", "touch", number=1)
    await_state(client, job, JobState.SUCCEEDED)
    worker.stop()
    assert ran(folder) == ["touch 1", "closed", "endless"]
    assert "--on-stop hooks:broken failed: OSError: the pool is away" in worker.log
    await_state(client, job, JobState.SUCCEEDED)


def test_a_hook_that_is_not_there_is_named(start):
    worker = start("--on-start", "hooks:nothing", "--on-stop", "hooks")
    assert worker.wait() == 78
    assert "--on-start hooks:nothing: hooks has no nothing" in worker.log

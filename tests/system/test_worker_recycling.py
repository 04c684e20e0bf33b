"""Processes that are replaced for their age or size, and what becomes of their jobs."""

import re
import signal

import pytest

from pinlater import JobState
from tests.system.worker_program import await_state, info, put, ran, wait_for


def pids(folder):
    return [line.split()[-1] for line in ran(folder) if line.startswith(("begin", "fill "))]


def test_a_process_over_the_ceiling_dies_and_the_job_is_given_up(start, client, folder):
    job = put(client, "Fills", "holds", megabytes=300, seconds=60)
    worker = start("--processes", 1, "--memory-ceiling", "200M")
    found = await_state(client, job, JobState.FAILED, seconds=100)
    assert found.status.count("killed by SIGKILL (memory ceiling: ") == 3, found.status
    assert "--memory-ceiling is 200 MB" in found.status
    await_state(client, put(client, "Touch", "touch", number=1), JobState.SUCCEEDED)
    assert worker.stop() == 0


def test_the_ceiling_holds_during_a_drain(start, client, folder):
    job = put(client, "Fills", "holds", megabytes=300, seconds=60, file="go.txt")
    worker = start("--processes", 1, "--memory-ceiling", "200M", "--drain", 40)
    wait_for(lambda: ran(folder))
    worker.send(signal.SIGTERM)
    worker.await_log("stopping: children have")
    (folder / "go.txt").touch()
    assert worker.wait() == 0
    found = info(client, job)
    assert (found.state, found.attempts_remaining) == (JobState.PENDING, 2)
    assert "memory ceiling" in found.status


def test_a_process_that_grew_finishes_its_job_and_is_replaced(start, client, folder):
    long = put(client, "Fills", "holds", megabytes=200, seconds=4)
    worker = start("--processes", 1, "--max-memory", "150M", "--drain", 0.5)
    assert await_state(client, long, JobState.SUCCEEDED).attempts_remaining == 3
    assert re.search(r"asked to stop: --max-memory: grew to (1[5-9]|2)\d+ MB", worker.log)
    await_state(client, put(client, "Sleep", "sleeps", name="next", seconds=0), JobState.SUCCEEDED)
    assert len(set(pids(folder))) == 2
    assert worker.stop() == 0


def test_a_process_of_age_finishes_its_job_and_is_replaced(start, client, folder):
    long = put(client, "Sleep", "sleeps", name="long", seconds=4)
    worker = start("--processes", 1, "--max-age", 1, "--drain", 0.5)
    assert await_state(client, long, JobState.SUCCEEDED).attempts_remaining == 3
    assert "asked to stop: --max-age: reached its maximum age of 1 s" in worker.log
    assert worker.stop() == 0


@pytest.mark.parametrize("option", ["--max-memory", "--memory-ceiling"])
def test_a_limit_that_leaves_no_room_is_an_error_with_the_size(start, option):
    worker = start("--processes", 2, option, "5M")
    assert worker.wait() == 78
    assert worker.log.count(f"pinlater-worker: {option} of 5 MB leaves no room for jobs: a process uses ") == 1

"""Middleware in real workers."""

import pytest

from pinlater.model.state import JobState
from tests.system.worker_program import await_state, put, ran, wait_for

AROUND = """
from contextlib import contextmanager

from jobs import write


@contextmanager
def noting(job, context):
    write(f"before {context.attempt}")
    try:
        yield
    except BaseException as error:
        write(f"saw {type(error).__name__}")
        raise
    write("after")


def broken(job, context):
    raise RuntimeError("no connection")
"""


@pytest.fixture
def around(folder):
    (folder / "around.py").write_text(AROUND)


@pytest.mark.parametrize("several", [(), ("--threads", 3)])
def test_it_surrounds_plain_limited_and_failing_jobs(around, start, client, folder, several):
    worker = start("--processes", 1, "--middleware", "around:noting", *several)
    await_state(client, put(client, "Touch", "touch", number=1), JobState.SUCCEEDED)
    assert ran(folder) == ["before 1", "touch 1", "after"]
    overdue = put(client, "OverdueLater", "overdue")
    assert "JobTimeout" in await_state(client, overdue, JobState.FAILED).status
    assert "saw CancelledError" in ran(folder)
    await_state(client, put(client, "Fails", "fails", how="discard"), JobState.FAILED)
    assert ran(folder)[-1] == "saw Discard"
    assert worker.stop() == 0


def test_it_surrounds_the_tasks_of_an_event_loop(around, start, client, folder):
    worker = start("--processes", 1, "--middleware", "around:noting", "--concurrency", 5, "--queue", "steps")
    put(client, "Steps", "steps")
    wait_for(lambda: ran(folder)[-1:] == ["after"], what=lambda: ran(folder))
    assert ran(folder) == [
        "before 1", "step first (1, 2)", "step second [1, 2]", "before 2", "step third [1, 2]", "after"
    ]  # fmt: skip
    assert worker.stop() == 0


def test_a_broken_one_fails_attempts_and_no_process(around, start, client, folder):
    worker = start("--processes", 1, "--middleware", "around:broken")
    told = await_state(client, put(client, "Fails", "fails", how="raise"), JobState.FAILED)
    assert told.status.count("RuntimeError: no connection") == 3
    assert ran(folder) == []
    assert worker.stop() == 0


def test_one_that_cannot_be_had_ends_the_worker(around, start):
    worker = start("--processes", 2, "--middleware", "around:nothing", "--middleware", "around")
    assert worker.wait() == 78
    assert "pinlater-worker: --middleware around:nothing: around has no nothing; check its spelling" in worker.log
    assert "pinlater-worker: --middleware around: write MODULE:NAME" in worker.log
    assert worker.log.count("--middleware") == 2

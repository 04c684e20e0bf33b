"""Long jobs in real workers: they go on where a killed process left off, and can be watched."""

import pytest

from pinlater import JobState
from tests.system.worker_program import await_state, info, job_module, put, ran, wait_for

JOBS = job_module("""
import os, signal, time
from pathlib import Path
from pinlater import Constant, Job


class Walk(Job, queue="counts", attempts=3, backoff=Constant(0.1), heartbeat=0):
    items: list[str]
    cursor: int = 0

    def run(self, context):
        for item in context.iterate(self.items):
            write(f"{item} {context.attempt}")
            if item == "c" and context.attempt == 1:
                os.kill(os.getpid(), signal.SIGKILL)


class Report(Job, queue="steps", heartbeat=0):
    def run(self, context):
        context.progress(1, 4, "as far as it goes")
        while not Path("go on").exists():
            time.sleep(0.02)
""")


@pytest.fixture
def modules(folder):
    (folder / "long.py").write_text(JOBS)
    return ("long",)


def test_a_loop_goes_on_where_its_killed_process_left_off(start, client, folder, modules):
    job = put(client, "Walk", "counts", items=list("abcde"))
    start("--processes", 1, modules=modules)
    await_state(client, job, JobState.SUCCEEDED)
    assert ran(folder) == ["a 1", "b 1", "c 1", "c 2", "d 2", "e 2"]


def test_the_progress_of_a_running_job_can_be_looked_up(start, client, folder, modules):
    job = put(client, "Report", "steps")
    worker = start("--processes", 1, modules=modules)
    wait_for(lambda: info(client, job).progress, what=lambda: worker.log)
    progress = info(client, job).progress
    assert (progress.fraction, progress.note) == (0.25, "as far as it goes")
    assert info(client, job).state is JobState.IN_PROGRESS
    (folder / "go on").touch()
    assert await_state(client, job, JobState.SUCCEEDED).progress is None

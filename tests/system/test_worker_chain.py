"""Follow-up jobs and rescheduled ones in real workers, whose processes are killed at the worst moments."""

import pytest

from pinlater import JobState
from tests.system.worker_program import await_state, info, job_module, put, ran, wait_for

JOBS = job_module("""
import os, signal
from pinlater import Constant, Job


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


class Touch(Job, queue="touch"):
    number: int

    def run(self, context):
        write(f"touch {self.number}")


class Parent(Job, queue="counts", backoff=Constant(0.1)):
    def run(self, context):
        write(f"parent {context.attempt}")
        if context.attempt == 1:
            context._save_surely = die  # after the follow-up was sent, before that is kept
        context.enqueue(Touch(number=1), name="touch", delay=2)


class Poll(Job, queue="counts", backoff=Constant(0.1)):
    runs: int = 0

    def run(self, context):
        write(f"poll {self.runs} attempt {context.attempt} {context.scheduled_for is not None}")
        if self.runs == 1 and context.attempt == 1:
            die()
        self.runs += 1
        if self.runs < 3:
            context.reschedule(after=0.2)
""")


@pytest.fixture
def worker(folder, start):
    (folder / "chain.py").write_text(JOBS)
    return start("--processes", 2, modules=("chain",))


def test_a_follow_up_that_was_sent_by_a_process_that_died_is_the_only_one(worker, client, folder):
    parent = put(client, "Parent", "counts")
    await_state(client, parent, JobState.SUCCEEDED)
    wait_for(lambda: "touch 1" in ran(folder), what=lambda: worker.log)
    assert sorted(ran(folder)) == ["parent 1", "parent 2", "touch 1"]
    wait_for(lambda: client.count("touch", JobState.SUCCEEDED) == 1, what=lambda: worker.log)
    assert client.count("touch", JobState.PENDING, future=True) == 0


def test_a_rescheduled_job_runs_again_and_a_crash_costs_an_attempt_of_its_run(worker, client, folder):
    job = put(client, "Poll", "counts")
    await_state(client, job, JobState.SUCCEEDED)
    assert ran(folder) == [
        "poll 0 attempt 1 False",
        "poll 1 attempt 1 True",
        "poll 1 attempt 2 True",
        "poll 2 attempt 1 True",
    ]
    assert info(client, job).attempts_remaining == 3

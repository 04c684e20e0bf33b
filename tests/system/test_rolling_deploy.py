"""Workers of an old version beside those of a new one: no job is burnt by who does not know it yet."""

import sys
from collections import Counter

import pytest

from pinlater.client import NewJob
from pinlater.model.state import JobState
from tests.system.test_worker_metrics import figures
from tests.system.worker_program import ran, wait_for

pytestmark = [pytest.mark.timeout(120), pytest.mark.skipif(sys.platform != "linux", reason="workers fork")]

NEW_JOBS = """
from jobs import *


class New(Job, queue="touch", attempts=1):
    number: int

    def run(self, context):
        write(f"new {self.number}")


class Touched(Job, name="Touch", queue="touch", attempts=1):
    number: str

    def run(self, context):
        write(f"touched {self.number}")


__all__ = ["New", "Touched"]
"""

JOBS = 60


@pytest.mark.parametrize("several", [(), ("--threads", 3)])
def test_jobs_that_only_new_workers_know_wait_for_these(start, client, folder, several):
    (folder / "new_jobs.py").write_text(NEW_JOBS)
    old = start("--processes", 2, "--health", "0", *several)
    bodies = [b'{"job": "New", "number": %d}' % n for n in range(JOBS)]
    bodies += [b'{"job": "Touch", "number": "%d"}' % n for n in range(JOBS)]
    jobs = client.enqueue_jobs("touch", [NewJob(body, attempts=1) for body in bodies])
    wait_for(lambda: figures(old).get(("jobs_total", "touch", "New", "unknown"), 0) >= JOBS, what=lambda: old.log)
    wait_for(lambda: told_by(client) >= {("touch", "New"), ("touch", "Touch")})
    assert {info.attempts_remaining for info in client.lookup(jobs).values()} == {1}
    new = start("--processes", 1, *several, modules=("new_jobs",))
    wait_for(lambda: client.count("touch", JobState.SUCCEEDED), what=lambda: new.log)
    assert old.stop() == 0
    wait_for(lambda: client.count("touch", JobState.SUCCEEDED) == 2 * JOBS, what=lambda: new.log)
    assert Counter(line.split()[0] for line in ran(folder)) == {"new": JOBS, "touched": JOBS}


def told_by(client):
    return {(jobs.queue, jobs.name) for report in client.workers() for jobs in report.unknown}

"""Workers of an old version beside those of a new one: no job is burnt by who does not know it yet."""

from collections import Counter

import pytest

from pinlater.client import NewJob
from pinlater.model.state import JobState
from tests.system.test_worker_metrics import figures
from tests.system.worker_program import ran, wait_for

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

ADD_UP = """
from jobs import *


class Measure(Job[{kind}], queue="sleeps"):
    def run(self, context):
        return {result}


class AddUp(Job, queue="touch", attempts=1):
    def run(self, context):
        write(f"got {{context.call(Measure())}}")


__all__ = ["AddUp", "Measure"]
"""

PAY = """
from jobs import *


class Pay(Job, queue="touch", attempts=1):
    number: int
{fields}
    def run(self, context):
        write("{version} began")
        while not os.path.exists("go"):
            context.checkpoint()
            time.sleep(0.01)
        write("paid %d " % self.number + {discount})


__all__ = ["Pay"]
"""


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


def test_a_field_that_only_new_workers_know_outlives_an_old_one(start, client, folder):
    """The old worker saves the job when it is stopped; what it does not know goes on to the new one."""
    (folder / "old_jobs.py").write_text(PAY.format(version="old", fields="", discount="str()"))
    fields = '    coupon: str = "none"\n'
    (folder / "new_jobs.py").write_text(PAY.format(version="new", fields=fields, discount="self.coupon"))
    old = start("--processes", 1, modules=("old_jobs",))
    [job] = client.enqueue_jobs("touch", [NewJob(b'{"job": "Pay", "number": 7, "coupon": "X"}', attempts=1)])
    wait_for(lambda: ran(folder) == ["old began"], what=lambda: old.log)
    assert old.stop() == 0
    assert client.lookup([job])[job].attempts_remaining == 1
    (folder / "go").touch()
    new = start("--processes", 1, modules=("new_jobs",))
    wait_for(lambda: client.count("touch", JobState.SUCCEEDED) == 1, what=lambda: new.log)
    assert ran(folder) == ["old began", "new began", "paid 7 X"]


def test_results_that_do_not_fit_the_new_class_of_a_called_job_wait_for_code_that_fits(start, client, folder):
    (folder / "old_jobs.py").write_text(ADD_UP.format(kind="int", result="5"))
    (folder / "new_jobs.py").write_text(ADD_UP.format(kind="dict", result="{}"))
    [job] = client.enqueue_jobs("touch", [NewJob(b'{"job": "AddUp"}', attempts=1)])
    for queue in ("touch", "sleeps"):  # it waits while the other runs
        assert start("--processes", 1, "--burst", "--queue", queue, modules=("old_jobs",)).wait() == 0
    new = start("--processes", 1, "--health", "0", modules=("new_jobs",))
    wait_for(lambda: figures(new).get(("jobs_total", "touch", "AddUp", "mismatch")), what=lambda: new.log)
    assert new.stop() == 0
    found = client.lookup([job])[job]
    assert (found.state, found.attempts_remaining) == (JobState.PENDING, 1)
    assert "waits for code that fits its steps: call 'Measure': the result of a Measure does not fit" in found.status
    start("--processes", 1, modules=("old_jobs",))
    wait_for(lambda: client.count("touch", JobState.SUCCEEDED) == 1)
    assert ran(folder) == ["got 5"]


def told_by(client):
    return {(jobs.queue, jobs.name) for report in client.workers() for jobs in report.unknown}

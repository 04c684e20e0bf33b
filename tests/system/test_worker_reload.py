"""``--reload``: edits of the modules of a worker that runs."""

import pytest

from pinlater import JobState
from tests.system.worker_program import await_state, put, ran, wait_for

pytest.importorskip("watchfiles")

CODE = """
import time
from pinlater import Job

class Touch(Job, queue="touch"):
    number: int
    seconds: float = 0

    def run(self, context):
        write("begin {version}")
        time.sleep(self.seconds)
        write("{version} %d" % self.number)

def write(line):
    with open("ran.txt", "a") as file:
        file.write(line + "\\n")
"""


def edit(folder, version):
    (folder / "edited.py").write_text(CODE.replace("{version}", version))


@pytest.fixture
def worker_of(start, folder):
    def run(version):
        edit(folder, version)
        return start("--reload", "--processes", 2, modules=("edited",))

    return run


def await_ready(worker):
    """Until the files are watched and jobs are run."""
    worker.await_log("2 processes for queue touch")
    worker.await_log("--reload: watching ")


def runs(client, folder, number):
    """Run a job; return the version of the code that ran it."""
    await_state(client, put(client, "Touch", "touch", number=number), JobState.SUCCEEDED)
    return next(line.split()[0] for line in ran(folder) if line.endswith(f" {number}"))


def await_version(client, folder, version):
    numbers = iter(range(1000, 9999))
    wait_for(lambda: runs(client, folder, next(numbers)) == version, what=lambda: ran(folder)[-5:])


def test_an_edit_is_loaded_and_jobs_in_progress_finish_on_the_old_code(worker_of, client, folder):
    worker = worker_of("v1")
    await_ready(worker)
    assert runs(client, folder, 1) == "v1"
    long = put(client, "Touch", "touch", number=2, seconds=4)
    wait_for(lambda: ran(folder).count("begin v1") == 2)
    edit(folder, "v2")
    worker.await_log("--reload: edited.py edited; reloading")
    await_version(client, folder, "v2")
    assert await_state(client, long, JobState.SUCCEEDED).attempts_remaining == 3
    assert "v1 2" in ran(folder)
    assert worker.stop() == 0


def test_code_that_cannot_be_loaded_is_reported_and_waits_for_the_next_edit(worker_of, client, folder):
    worker = worker_of("v1")
    await_ready(worker)
    (folder / "edited.py").write_text("class Touch(:\n")
    worker.await_log("pinlater-worker: cannot load edited: ")
    worker.await_log("edited.py:1: SyntaxError")
    worker.await_log("pool jobs cannot boot; waiting for the next reload")
    assert runs(client, folder, 1) == "v1"
    edit(folder, "v2")
    await_version(client, folder, "v2")
    assert worker.log.count("SyntaxError") == 1
    assert worker.stop() == 0


def test_a_worker_may_begin_with_code_that_cannot_be_loaded(worker_of, start, client, folder):
    (folder / "edited.py").write_text("import no_such_module\n")
    worker = start("--reload", "--processes", 2, modules=("edited",))
    worker.await_log("ModuleNotFoundError")
    worker.await_log("waiting for the next reload")
    worker.await_log("--reload: watching ")
    edit(folder, "v1")
    worker.await_log("2 processes for queue touch")
    await_state(client, put(client, "Touch", "touch", number=1), JobState.SUCCEEDED)
    assert worker.stop() == 0


def test_files_that_are_no_code_do_not_matter(worker_of, client, folder):
    worker = worker_of("v1")
    await_ready(worker)
    (folder / "data.json").write_text("{}")
    (folder / ".#edited.py").write_text("")
    assert runs(client, folder, 1) == "v1"  # which writes a file, too
    edit(folder, "v2")
    worker.await_log("--reload: edited.py edited")
    assert "data.json" not in worker.log
    assert ".#" not in worker.log
    assert worker.stop() == 0

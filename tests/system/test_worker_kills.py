"""Deaths and stops from outside: what was cut off goes on elsewhere, soon, and nothing is left behind."""

import os
import signal
import time

import psutil
import pytest

from pinlater import JobState
from tests.system.worker_program import await_state, info, put, ran, wait_for

LEASE_SECONDS = 600
"""No test waits for the end of such a lease."""
DEAF = """
import os, signal, time
from pinlater import Job


class Deaf(Job, queue="sleeps"):
    def run(self, context):
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        with open("ran.txt", "a") as file:
            file.write(f"begin deaf {context.attempt} {os.getpid()}\\n")
        while True:
            try:
                time.sleep(1)
            except BaseException:
                pass
"""


def begun(folder):
    """Return the pids of the attempts that have begun."""
    return [int(line.split()[-1]) for line in ran(folder) if line.startswith("begin")]


def processes_of(worker):
    master = psutil.Process(worker.process.pid)
    return [master, *master.children(recursive=True)]


STARTS = """
import os, subprocess, sys, time
from pinlater import Job


class Starts(Job, queue="sleeps"):
    def run(self, context):
        with open("started.txt", "a") as file:
            for has_left in (False, True):
                file.write(f"{subprocess.Popen(['sleep', '10000'], start_new_session=has_left).pid}\\n")
            pid = os.fork()
            if pid == 0:
                time.sleep(10_000)
            file.write(f"{pid}\\n")
        time.sleep(10_000)
"""


# Kill -9


def test_what_jobs_have_started_ends_with_a_worker_that_is_killed(start, client, folder):
    (folder / "starts.py").write_text(STARTS)
    for _ in range(2):
        put(client, "Starts", "sleeps")
    worker = start("--processes", 2, modules=("starts",))
    file = folder / "started.txt"
    wait_for(lambda: file.exists() and len(file.read_text().split()) == 6, what=lambda: worker.log)
    started = [psutil.Process(int(pid)) for pid in file.read_text().split()]
    others = processes_of(worker)
    worker.process.kill()
    _, alive = psutil.wait_procs([*started, *others], timeout=60)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


@pytest.mark.parametrize("also_the_keeper", [False, True])
def test_the_job_of_a_killed_process_begins_again_long_before_its_lease_ends(start, client, folder, also_the_keeper):
    job = put(client, "Until", "sleeps", name="long")
    worker = start("--processes", 2, "--lease", LEASE_SECONDS)
    wait_for(lambda: begun(folder), what=lambda: worker.log)
    if also_the_keeper:
        worker.children("keeper")[0].kill()
    os.kill(begun(folder)[0], signal.SIGKILL)
    wait_for(lambda: len(begun(folder)) == 2, what=lambda: worker.log)
    (folder / "go on").touch()
    found = await_state(client, job, JobState.SUCCEEDED)
    assert (found.attempts_remaining, len(begun(folder))) == (2, 2)
    assert found.status.count("killed by SIGKILL") == 1
    assert worker.stop() == 0


def test_nothing_outlives_a_killed_master_and_its_job_begins_elsewhere(start, client, folder):
    job = put(client, "Until", "sleeps", name="long")
    first = start("--processes", 2, "--lease", 2)
    wait_for(lambda: begun(folder), what=lambda: first.log)
    master, *children = processes_of(first)
    master.kill()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []
    first.wait()
    (folder / "go on").touch()
    worker = start("--processes", 1)
    found = await_state(client, job, JobState.SUCCEEDED)
    assert (found.attempts_remaining, len(begun(folder))) == (2, 2)
    assert worker.stop() == 0


# Stopping


def test_term_to_all_processes_is_a_drain_like_any_other(start, client, folder):
    """Init programs and service managers do this. The job outlasts its lease: the keeper must not go before it."""
    jobs = [put(client, "Outlasts", "sleeps", name=f"n{number}", seconds=3.5) for number in range(3)]
    worker = start("--processes", 2, "--lease", 1.5)
    wait_for(lambda: len(begun(folder)) == 2, what=lambda: worker.log)
    for process in processes_of(worker):
        process.terminate()
    assert worker.wait() == 0, worker.log
    infos = [info(client, job) for job in jobs]
    assert sorted(found.state.name for found in infos) == ["PENDING", "SUCCEEDED", "SUCCEEDED"]
    assert {found.attempts_remaining for found in infos} == {3}
    assert len(begun(folder)) == 2


def test_term_to_one_process_lets_it_finish_and_replaces_it(start, client, folder):
    job = put(client, "Outlasts", "sleeps", name="long", seconds=0.5)
    worker = start("--processes", 1)
    wait_for(lambda: begun(folder), what=lambda: worker.log)
    [pid] = begun(folder)
    os.kill(pid, signal.SIGTERM)
    assert await_state(client, job, JobState.SUCCEEDED).attempts_remaining == 3
    other = put(client, "Sleep", "sleeps", name="short", seconds=0)
    await_state(client, other, JobState.SUCCEEDED)
    assert begun(folder)[1] != pid
    assert worker.stop() == 0


@pytest.mark.parametrize("names", ["TERM", "QUIT", "INT INT", "TERM INT INT"])
def test_a_stop_kills_a_job_that_ignores_it_without_spending_an_attempt(start, client, folder, names):
    (folder / "deaf.py").write_text(DEAF)
    job = put(client, "Deaf", "sleeps")
    worker = start("--processes", 1, "--lease", LEASE_SECONDS, "--drain", 2, modules=("deaf",))
    wait_for(lambda: begun(folder), what=lambda: worker.log)
    processes = processes_of(worker)
    for name in names.split():
        seen = worker.log.count("stop")
        worker.send(signal.Signals[f"SIG{name}"])
        wait_for(lambda seen=seen: worker.log.count("stop") > seen or worker.process.poll() is not None)
    assert worker.wait() == 0
    assert [process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE] == []
    found = info(client, job)
    assert (found.state, found.attempts_remaining) == (JobState.PENDING, 3), worker.log
    assert time.time() * 1000 - found.run_after_ms >= 0, "it can begin at once"

"""The life of a worker: start, stop, reload, and the deaths of everything around it."""

import json
import random
import re
import signal
import time

import psutil
import pytest

from pinlater import Client, JobState
from pinlater.client import NewJob
from tests.support.ports import free_port
from tests.support.server import ServerProcess
from tests.system.worker_program import Worker, await_state, info, put, ran, wait_for

MISSING = "No module named 'nothing_of_that_name'"
AT_IMPORT = "it does its work when it is imported: put that under if __name__ == '__main__':"


def touches(count, attempts=3):
    return [NewJob(b'{"job": "Touch", "number": %d}' % number, attempts=attempts) for number in range(count)]


# Stopping


def test_a_drain_interrupts_a_job_at_its_checkpoint(start, client, folder):
    job = put(client, "Count", "counts", to=400)
    worker = start("--processes", 1)
    wait_for(lambda: b'"cursor":0' not in info(client, job).body.replace(b" ", b"") and ran(folder))
    assert worker.stop() == 0
    found = info(client, job)
    assert (found.state, found.attempts_remaining) == (JobState.PENDING, 3)
    assert start("--burst", "--processes", 1).wait() == 0
    first, second, last = ran(folder)
    assert first == "count from 0 attempt 1"
    assert second.endswith("attempt 1")
    assert int(second.split()[2]) > 0
    assert last == "counted"


def test_a_drain_lets_jobs_finish_and_gives_back_the_rest(start, client, folder):
    jobs = [put(client, "Outlasts", "sleeps", name=f"n{number}", seconds=0.2) for number in range(5)]
    worker = start("--processes", 1, "--queue", "sleeps")
    wait_for(lambda: ran(folder))
    assert worker.stop() == 0
    infos = [info(client, job) for job in jobs]
    assert [found.state for found in infos].count(JobState.SUCCEEDED) == 1
    assert [found.state for found in infos].count(JobState.PENDING) == 4
    assert {found.attempts_remaining for found in infos} == {3}


def test_an_idle_worker_stops_at_once_and_keeps_no_claim(start, client):
    worker = start("--processes", 2)
    worker.await_log("2 processes for queue")
    time.sleep(0.3)  # let them wait for jobs
    began = time.monotonic()
    assert worker.stop() == 0
    assert time.monotonic() - began < 15
    job = put(client, "Touch", "touch", number=1)
    assert [claimed.descriptor for claimed in client.dequeue_jobs("touch", 10)] == [job]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_job_cut_off_by_a_stop_goes_back_unharmed(start, client, folder, number):
    job = put(client, "Sleep", "sleeps", name="endless", seconds=60)
    worker = start("--processes", 1, "--drain", 1)
    wait_for(lambda: ran(folder))
    assert worker.stop(number) == 0
    found = info(client, job)
    assert (found.state, found.attempts_remaining) == (JobState.PENDING, 3), worker.log


def test_processes_are_replaced_after_some_jobs_and_none_is_lost(start, client, folder):
    client.enqueue_jobs("touch", touches(2000))
    worker = start("--processes", 2, "--max-jobs", 300, "--queue", "touch")
    wait_for(lambda: client.count("touch", JobState.SUCCEEDED) == 2000, what=lambda: worker.log)
    assert len(set(ran(folder))) == len(ran(folder)) == 2000
    assert worker.stop() == 0
    assert worker.log.count("jobs[0] pid") > 4
    assert worker.log.count("--max-jobs: ") > 2
    told = [int(count) for count in re.findall(r"--max-jobs: ran (\d+) jobs", worker.log)]
    assert all(270 <= count <= 300 for count in told), "a tenth fewer at most, and none more"


# Deaths


def test_the_death_of_everything_costs_an_attempt_and_no_job(start, client, folder):
    job = put(client, "Until", "sleeps", name="first")
    worker = start("--processes", 1, "--lease", 2)
    wait_for(lambda: ran(folder))
    processes = psutil.Process(worker.process.pid).children()
    worker.end()
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert alive == []
    (folder / "go on").touch()
    start("--processes", 1)
    assert await_state(client, job, JobState.SUCCEEDED).attempts_remaining == 2


def test_a_keeper_that_dies_is_replaced_and_goes_on(start, client, folder):
    long = put(client, "Sleep", "sleeps", name="long", seconds=4)
    worker = start("--processes", 1, "--lease", 2.5)  # long enough for a keeper to start on a busy machine
    wait_for(lambda: ran(folder))
    for _ in range(2):
        [keeper] = worker.children("keeper")
        keeper.kill()
        wait_for(lambda former=keeper: [child.pid for child in worker.children("keeper")] not in ([], [former.pid]))
    assert await_state(client, long, JobState.SUCCEEDED).attempts_remaining == 3
    assert worker.stop() == 0


def test_processes_killed_at_random_lose_no_job(start, client, folder):
    client.enqueue_jobs("touch", touches(4000, attempts=50))
    worker = start("--processes", 3, "--queue", "touch", "--queue", "sleeps")
    naps = [put(client, "Sleep", "sleeps", name=f"n{number}", seconds=0.05) for number in range(40)]
    chance = random.Random(7)
    for _ in range(8):
        time.sleep(chance.uniform(0.02, 0.4))
        children = worker.children("jobs")
        if children:
            chance.choice(children).kill()
    wait_for(lambda: client.count("touch", JobState.SUCCEEDED) == 4000, 60, lambda: worker.log)
    for job in naps:
        wait_for(lambda job=job: info(client, job).state in {JobState.SUCCEEDED, JobState.FAILED})
    assert {f"touch {number}" for number in range(4000)} <= set(ran(folder))
    assert client.count("touch", JobState.FAILED) == 0
    assert worker.stop() == 0


def test_a_server_that_is_killed_again_and_again_loses_no_job(folder, tmp_path_factory):
    with (
        ServerProcess(tmp_path_factory.mktemp("killed")) as server,
        Worker(
            folder, "jobs", "--server", server.address, "--processes", 2, "--queue", "touch", "--lease", 2
        ) as worker,
    ):
        with Client(server.address, retries=10) as client:
            worker.await_log("created queue touch")
            for _ in range(5):
                client.enqueue_jobs("touch", touches(1000, attempts=50))
                server.kill()
                server.start()
            wait_for(lambda: client.count("touch", JobState.SUCCEEDED) >= 5000, 60, lambda: worker.log)
            wait_for(lambda: client.count("touch", JobState.IN_PROGRESS) + client.count("touch", JobState.PENDING) == 0)
            assert client.count("touch", JobState.FAILED) == 0
        assert worker.stop() == 0
    assert {f"touch {number}" for number in range(1000)} == set(ran(folder))


# Reloading


def test_a_reload_loads_the_code_anew(start, client, folder):
    worker = start("--processes", 1)
    await_state(client, put(client, "Touch", "touch", number=1), JobState.SUCCEEDED)
    jobs = folder / "jobs.py"
    jobs.write_text(jobs.read_text().replace("touch {self.number}", "new touch {self.number}"))
    worker.send(signal.SIGHUP)
    wait_for(lambda: worker.log.count("1 process for queue") == 2 and len(worker.children("jobs")) == 1)
    await_state(client, put(client, "Touch", "touch", number=2), JobState.SUCCEEDED)
    assert ran(folder) == ["touch 1", "new touch 2"]
    assert worker.stop() == 0


def test_a_reload_into_broken_code_leaves_the_old_one_running(start, client, folder):
    worker = start("--processes", 1)
    worker.await_log("1 process for queue")
    code = (folder / "jobs.py").read_text()
    (folder / "jobs.py").write_text("import nothing_of_that_name\n")
    worker.send(signal.SIGHUP)
    worker.await_log("cannot load jobs")
    await_state(client, put(client, "Touch", "touch", number=1), JobState.SUCCEEDED)
    wait_for(lambda: [report.cannot_start for report in client.workers()] == [True])
    (folder / "jobs.py").write_text(code)
    worker.send(signal.SIGHUP)
    wait_for(lambda: [report.cannot_start for report in client.workers()] == [False])
    assert worker.stop() == 0


def test_a_process_that_ends_while_the_code_is_broken_is_replaced_when_it_is_mended(start, client, folder):
    """As while a new version is installed in place."""
    worker = start("--processes", 1)
    worker.await_log("1 process for queue")
    code = (folder / "jobs.py").read_text()
    for number in (1, 2):
        (folder / "jobs.py").write_text("import nothing_of_that_name\n")
        worker.children("jobs")[0].kill()
        wait_for(lambda number=number: worker.log.count("cannot load jobs") == number, what=lambda: worker.log)
        (folder / "jobs.py").write_text(code)
        await_state(client, put(client, "Touch", "touch", number=number), JobState.SUCCEEDED)
    assert worker.stop() == 0


def test_a_reload_has_one_keeper_after_the_other(start):
    """Two would recover the same exits of processes, and one could remove what the other has not handled."""
    worker = start("--processes", 1)
    worker.await_log("1 process for queue")
    [former] = worker.children("keeper")
    seen = []

    def is_replaced():
        seen.append({child.pid for child in worker.children("keeper")})
        return seen[-1] - {former.pid} and former.pid not in seen[-1]

    worker.send(signal.SIGHUP)
    wait_for(is_replaced)
    assert max(map(len, seen)) == 1
    assert worker.stop() == 0


# Starting


def test_only_job_processes_load_the_users_code(start, folder):
    worker = start("--processes", 2)
    worker.await_log("2 processes for queue")
    wait_for(lambda: len((folder / "imported.txt").read_text().split()) == 2)
    imported = {int(pid) for pid in (folder / "imported.txt").read_text().split()}
    assert imported == {child.pid for child in worker.children("jobs")}
    assert len(worker.children("keeper")) == 1
    assert worker.stop() == 0


def test_all_that_cannot_be_loaded_is_said_once(start, folder):
    (folder / "missing.py").write_text("\nimport nothing_of_that_name\n")
    (folder / "broken.py").write_text("def f(:\n")
    (folder / "leaves.py").write_text("raise SystemExit(0)\n")
    worker = start("--processes", 3, modules=("jobs", "missing", "broken", "leaves", "no/such.py"))
    assert worker.wait() == 78
    lines = [line for line in worker.log.splitlines() if line.startswith("pinlater-worker: ")]
    assert lines == [
        f"pinlater-worker: cannot load missing: {folder}/missing.py:2: ModuleNotFoundError: {MISSING}",
        f"pinlater-worker: cannot load broken: {folder}/broken.py:1: SyntaxError: invalid syntax",
        f"pinlater-worker: cannot load leaves: {folder}/leaves.py:1: SystemExit: 0; {AT_IMPORT}",
        "pinlater-worker: cannot load no/such.py: FileNotFoundError: no such file",
    ]
    assert "Traceback" not in worker.log


@pytest.mark.parametrize(
    ("code", "arguments", "reason"),
    [
        ("", (), "no job class in mine.py; define one"),
        (
            "from pinlater import RawJob\nclass Old(RawJob, queue='old'):\n  def run(self, c): pass",
            ("--queue", "unknown"),
            "no job class has the queue 'unknown'; there are old",
        ),
        (
            "from jobs import *\n__all__ = ['Touch']\nclass A(Job, name='Touch'):\n  def run(self, c): pass",
            (),
            "two job classes are named 'Touch'",
        ),
        (
            "from jobs import *\nclass A(Job):\n  place: 'Nowhere'\n  def run(self, c): pass",
            (),
            "job class mine.A: a field has a type that is not there at run time: name 'Nowhere' is not defined",
        ),
    ],
)
def test_a_worker_without_a_job_to_run_says_so(start, folder, code, arguments, reason):
    (folder / "mine.py").write_text(code)
    worker = start("--processes", 2, *arguments, modules=("mine.py",))
    assert worker.wait() == 78
    assert worker.log.count(reason) == 1, worker.log


def test_where_logs_are_json_the_reason_is_a_line_of_json(start, folder):
    (folder / "mine.py").write_text("")
    worker = start("--log-format", "json", modules=("mine.py",))
    assert worker.wait() == 78
    reasons = [line["message"] for line in map(json.loads, worker.log.splitlines()) if line["level"] == "CRITICAL"]
    assert len(reasons) == 1
    assert reasons[0].startswith("no job class in mine.py; define one")
    worker = start("--log-format", "json", "--queue", "a:b", modules=("jobs",))
    assert worker.wait() == 78
    assert "the weight of a must be a number" in json.loads(worker.log.splitlines()[-1])["message"]


def test_a_burst_without_a_server_ends_with_69(folder):
    with Worker(folder, "jobs", "--server", f"127.0.0.1:{free_port()}", "--burst", "--processes", 2) as worker:
        assert worker.wait() == 69
        assert worker.log.count("is pinlater-server running? choose another with --server or PINLATER_SERVERS") == 1


def test_a_worker_waits_for_its_server(folder, tmp_path_factory):
    server = ServerProcess(tmp_path_factory.mktemp("late"))
    server.kill()
    worker = Worker(folder, "jobs", "--server", server.address, "--processes", 1)
    try:
        worker.await_log("cannot reach")
        server.start()
        worker.await_log("created queue touch")
        with Client(server.address) as client:
            await_state(client, put(client, "Touch", "touch", number=1), JobState.SUCCEEDED)
        assert worker.log.count("cannot reach") <= 2  # a job process and the keeper
        assert worker.stop() == 0
    finally:
        worker.end()
        server.stop()


def test_it_stops_while_it_waits_for_a_server(folder):
    with Worker(folder, "jobs", "--server", f"127.0.0.1:{free_port()}", "--processes", 1) as worker:
        worker.await_log("cannot reach")
        assert worker.stop() == 0


def test_a_queue_that_is_deleted_is_created_anew(start, client):
    worker = start("--processes", 1, "--queue", "touch")
    worker.await_log("1 process for queue")
    time.sleep(0.3)
    client.delete_queue("touch", "open sesame")
    wait_for(lambda: "touch" in client.queue_names(), what=lambda: worker.log)
    await_state(client, put(client, "Touch", "touch", number=1), JobState.SUCCEEDED)
    assert worker.stop() == 0

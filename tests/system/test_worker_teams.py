"""Several jobs at once in one process: in threads, and on an event loop."""

import signal
import time

import pytest

from pinlater import Job, JobState
from pinlater.client import NewJob
from tests.system.worker_program import add_jobs, await_state, info, put, ran, wait_for

THREADS = ("threads.py", "--threads", 16)
TASKS = ("later.py", "--concurrency", 100)


@pytest.fixture
def team(start, folder):
    """Start a worker of one process with several jobs at once."""
    add_jobs(folder, "threads")
    add_jobs(folder, "later")

    def team(kind, *arguments, processes=1):
        return start("--processes", processes, *kind[1:], *arguments, modules=kind[:1])

    return team


def drained(worker, number=signal.SIGTERM):
    status = worker.stop(number)
    assert status == 0, worker.log


def test_blocking_jobs_overlap_in_threads(team, client, folder):
    jobs = [put(client, "Meet", "sleeps", others=16) for _ in range(16)]
    worker = team(THREADS)
    for job in jobs:
        assert await_state(client, job, JobState.SUCCEEDED).attempts_remaining == 3
    assert len({line for line in ran(folder) if line.startswith("there")}) == 1, "one process"
    drained(worker)


def test_a_hundred_coroutines_overlap_on_one_loop(team, client):
    jobs = [put(client, "Meet", "sleeps", others=100) for _ in range(100)]
    worker = team(TASKS)
    for job in jobs:
        assert await_state(client, job, JobState.SUCCEEDED).attempts_remaining == 3
    drained(worker)


def test_no_more_is_fetched_than_can_be_started(team, client, folder):
    jobs = [put(client, "Wait", "holds", name=f"n{number}") for number in range(20)]
    worker = team(THREADS)
    wait_for(lambda: len(ran(folder)) == 16, what=lambda: worker.log)
    time.sleep(0.3)
    assert client.count("holds", JobState.IN_PROGRESS) == 16
    assert client.count("holds", JobState.PENDING) == 4
    (folder / "go on").touch()
    for job in jobs:
        await_state(client, job, JobState.SUCCEEDED)
    drained(worker)


def test_a_killed_process_costs_each_of_its_jobs_an_attempt_and_none_is_poison(team, client, folder):
    names = ["kills", "a", "b", "c", "d"]
    jobs = [put(client, "Wait", "holds", name=name) for name in names]
    worker = team(THREADS)
    wait_for(lambda: len(ran(folder)) == 10, what=lambda: worker.log)
    (folder / "go on").touch()
    for job in jobs:
        found = await_state(client, job, JobState.SUCCEEDED)
        assert found.attempts_remaining == 2, found.status
        assert "crash of one of 5 jobs that ran: the process died while it ran Wait" in found.status
        assert "killed by SIGKILL" in found.status
    drained(worker)


def test_one_job_past_its_limits_does_not_hurt_the_others(team, client, folder):
    soft = [put(client, "Overdue", "overdue"), put(client, "OverdueLater", "overdue")]
    other = put(client, "Wait", "holds", name="other")
    worker = team(THREADS)
    for job in soft:
        found = await_state(client, job, JobState.FAILED)
        assert found.status.count("JobTimeout: it ran for longer than its timeout of 0.3 s") == 3, found.status
    assert ran(folder).count(next(line for line in ran(folder) if "other" in line)) == 1
    hard = client.enqueue_jobs("overdue", [NewJob(b'{"job": "Heedless"}', attempts=1)])[0]
    found = await_state(client, hard, JobState.FAILED)
    assert "time-out: the process died while it ran Heedless for " in found.status
    assert "threads.py" in worker.log, "where it was"
    (folder / "go on").touch()
    found = await_state(client, other, JobState.SUCCEEDED)
    assert (found.attempts_remaining, found.status) == (5 - 2, ""), "it had to begin anew, and was not blamed"
    drained(worker)


def test_coroutines_past_their_limit_are_cancelled(team, client):
    job = put(client, "Overdue", "overdue")
    worker = team(TASKS, "--burst")
    assert worker.wait() == 0, worker.log
    assert info(client, job).status.count("JobTimeout: it ran for longer") == 3
    assert info(client, job).state is JobState.FAILED


@pytest.mark.parametrize("kind", [THREADS, TASKS])
def test_jobs_that_stand_still_are_stopped(team, client, kind):
    jobs = [put(client, "Stalls", "overdue") for _ in range(3)]
    worker = team(kind, "--burst")
    assert worker.wait() == 0, worker.log
    for job in jobs:
        assert info(client, job).status.count("JobStalled: it gave no sign of progress for 0.3 s") == 3
        assert info(client, job).state is JobState.FAILED


@pytest.mark.parametrize("kind", [THREADS, TASKS])
def test_a_drain_interrupts_those_that_save_and_waits_for_the_rest(team, client, folder, kind):
    jobs = [put(client, "Count", "counts", to=2000 if number % 2 else 60) for number in range(10)]
    worker = team(kind)
    wait_for(lambda: len(ran(folder)) == 10, what=lambda: worker.log)
    wait_for(lambda: all(b'"cursor":0' not in info(client, job).body for job in jobs), what=lambda: worker.log)
    drained(worker)
    found = [info(client, job) for job in jobs]
    assert {one.attempts_remaining for one in found} == {3}, worker.log
    assert client.count("counts", JobState.IN_PROGRESS) == 0
    for one in found[1::2]:
        assert one.state is JobState.PENDING
        assert b'"cursor":0' not in one.body


def test_a_drain_lets_threads_finish_and_gives_back_the_rest(team, client, folder):
    bodies = [b'{"job": "Wait", "name": "n%d"}' % number for number in range(1000)]
    jobs = client.enqueue_jobs("holds", [NewJob(body, attempts=3) for body in bodies])
    worker = team(THREADS)
    wait_for(lambda: len(ran(folder)) == 16, what=lambda: worker.log)
    worker.send(signal.SIGTERM)
    worker.await_log("stopping")
    (folder / "go on").touch()
    assert worker.wait() == 0, worker.log
    left, done = client.count("holds", JobState.PENDING), client.count("holds", JobState.SUCCEEDED)
    assert left + done == 1000
    assert 16 <= done < 1000, "a few more may begin until the process hears of it"
    assert len(ran(folder)) == 2 * done, "each begins and ends"
    assert {job.attempts_remaining for job in client.lookup(jobs).values()} == {3}


def test_what_does_not_end_by_the_deadline_goes_back_unharmed(team, client, folder):
    jobs = [put(client, "Wait", "holds", name=f"n{number}") for number in range(3)]
    worker = team(THREADS, "--drain", 1)
    wait_for(lambda: len(ran(folder)) == 3, what=lambda: worker.log)
    drained(worker)
    for job in jobs:
        assert (info(client, job).state, info(client, job).attempts_remaining) == (JobState.PENDING, 3), worker.log


def test_nor_is_harmed_what_ran_beside_a_job_that_left_no_more_files_to_open(team, client, folder):
    job = put(client, "Wait", "holds", name="beside")
    worker = team(THREADS, "--drain", 1)
    wait_for(lambda: ran(folder), what=lambda: worker.log)
    put(client, "Hoards", "holds")
    worker.await_log("no more can be; a new process replaces this one")
    drained(worker)
    assert (info(client, job).state, info(client, job).attempts_remaining) == (JobState.PENDING, 3), worker.log


@pytest.mark.parametrize("kind", [THREADS, TASKS])
def test_processes_are_replaced_after_some_jobs_and_none_is_lost(team, client, folder, kind):
    bodies = [b'{"job": "Touch", "number": %d}' % number for number in range(2000)]
    client.enqueue_jobs("touch", [NewJob(body) for body in bodies])
    worker = team(kind, "--max-jobs", 300, "--queue", "touch", processes=2)
    wait_for(lambda: client.count("touch", JobState.SUCCEEDED) == 2000, what=lambda: worker.log)
    assert sorted(int(line.split()[1]) for line in ran(folder)) == list(range(2000))
    drained(worker)
    jobs_of = [line.split()[2] for line in ran(folder)]
    assert max(jobs_of.count(pid) for pid in set(jobs_of)) <= 300
    assert len(set(jobs_of)) >= 7


def test_processes_killed_at_random_lose_no_job(team, client, folder):
    bodies = [b'{"job": "Touch", "number": %d}' % number for number in range(3000)]
    client.enqueue_jobs("touch", [NewJob(body, attempts=50) for body in bodies])
    worker = team(THREADS, "--queue", "touch", processes=2)
    for _ in range(6):
        time.sleep(0.15)
        for child in worker.children("jobs")[:1]:
            child.kill()
    wait_for(lambda: client.count("touch", JobState.SUCCEEDED) == 3000, 60, lambda: worker.log)
    assert {int(line.split()[1]) for line in ran(folder)} == set(range(3000))
    drained(worker)


def test_a_reload_lets_the_old_jobs_end(team, client, folder):
    job = put(client, "Wait", "holds", name="old")
    worker = team(THREADS)
    wait_for(lambda: ran(folder))
    worker.send(signal.SIGHUP)
    wait_for(lambda: worker.log.count("1 process for queue") == 2)
    put(client, "Touch", "touch", number=1)
    wait_for(lambda: any("touch 1" in line for line in ran(folder)), what=lambda: worker.log)
    (folder / "go on").touch()
    assert await_state(client, job, JobState.SUCCEEDED).attempts_remaining == 3
    drained(worker)


def test_a_job_that_blocks_the_loop_is_named_once(team, client, folder):
    job = put(client, "Blocks", "holds")
    worker = team(TASKS)
    worker.await_log("the event loop and all its jobs have been blocked for ")
    (folder / "logged").touch()
    await_state(client, job, JobState.SUCCEEDED)
    assert worker.log.count("have been blocked for ") == 1, worker.log
    assert job in worker.log.split("blocked for")[1].splitlines()[0]
    assert "time.sleep(0.01)" in worker.log
    drained(worker)


def test_jobs_that_wait_for_a_blocked_loop_keep_their_attempt_when_the_process_dies(team, client, folder):
    blocking = put(client, "Blocks", "holds")
    worker = team(TASKS)
    worker.await_log("the event loop and all its jobs have been blocked for ")
    waiting = [put(client, "Touch", "touch", number=number) for number in range(3)]
    wait_for(lambda: client.count("touch", JobState.IN_PROGRESS) == 3, what=lambda: worker.log)
    [child] = worker.children("jobs")
    child.kill()
    wait_for(lambda: info(client, blocking).attempts_remaining == 2, what=lambda: worker.log)
    (folder / "logged").touch()
    assert "crash 1: the process died while it ran Blocks for " in info(client, blocking).status
    for job in waiting:
        assert await_state(client, job, JobState.SUCCEEDED).attempts_remaining == 3, worker.log
    drained(worker)


def test_steps_of_one_coroutine_go_on_beside_each_other(team, client, folder):
    jobs = [put(client, "Stepping", "steps") for _ in range(20)]
    worker = team(TASKS, "--burst")
    assert worker.wait() == 0, worker.log
    assert {info(client, job).state for job in jobs} == {JobState.SUCCEEDED}
    assert ran(folder) == ["steps [0, 1, 4, 9, 16]"] * 20


class Touch(Job, queue="touch"):
    """The workers have a class of this name, too."""

    number: int

    def run(self, context):
        raise NotImplementedError


@pytest.mark.parametrize("kind", [THREADS, TASKS], ids=["threads", "tasks"])
def test_a_batch(team, client, folder, kind):
    batch = client.batch([Touch(number=1), Touch(number=2)], then=Touch(number=3))
    worker = team(kind, "--burst", "--queue", "touch")
    assert worker.wait() == 0, worker.log
    assert batch.result(timeout=0).succeeded == 2
    touched = [line.split()[1] for line in ran(folder)]
    assert (sorted(touched[:2]), touched[2:]) == (["1", "2"], ["3"])


@pytest.mark.parametrize("kind", [THREADS, TASKS], ids=["threads", "tasks"])
def test_a_step_that_takes_too_long_and_the_saga_that_it_ends(team, client, folder, kind):
    jobs = [put(client, "Trip", "trips") for _ in range(3)]
    worker = team(kind, "--queue", "trips")
    for job in jobs:
        status = await_state(client, job, JobState.FAILED).status
        assert status.count("StepTimeout: step 'slow' ran for longer than its timeout of 0.1 s") == 4, (
            "of three attempts, and why it was undone"
        )
    assert ran(folder) == ["cancelled 7"] * 3
    drained(worker)


def test_plain_classes_are_refused_by_an_event_loop(team):
    worker = team(("threads.py", "--concurrency", 10), "--queue", "touch,overdue")
    assert worker.wait() == 78
    assert (
        "a blocking run would stop: Touch (queue touch), Overdue (queue overdue), Heedless (queue overdue), "
        "Stalls (queue overdue); write" in worker.log
    )
    assert worker.log.count("use --threads") == 1


def test_a_server_that_is_away_for_a_while_loses_no_job(folder, tmp_path_factory):
    from pinlater import Client
    from tests.support.server import ServerProcess
    from tests.system.worker_program import Worker

    add_jobs(folder, "threads")
    options = ("--processes", 1, "--threads", 8, "--queue", "touch,counts", "--lease", 2)
    with (
        ServerProcess(tmp_path_factory.mktemp("killed")) as server,
        Worker(folder, "threads.py", "--server", server.address, *options) as worker,
    ):
        with Client(server.address, retries=10) as client:
            worker.await_log("created queue counts")  # the last of them
            counting = [put(client, "Count", "counts", to=300) for _ in range(4)]
            for turn in range(3):
                bodies = [b'{"job": "Touch", "number": %d}' % number for number in range(turn * 500, turn * 500 + 500)]
                client.enqueue_jobs("touch", [NewJob(body, attempts=50) for body in bodies])
                server.kill()
                server.start()
            wait_for(lambda: client.count("touch", JobState.SUCCEEDED) == 1500, 60, lambda: worker.log)
            for job in counting:
                await_state(client, job, JobState.SUCCEEDED)
        assert worker.stop() == 0, worker.log
    assert {int(line.split()[1]) for line in ran(folder) if "touch" in line} == set(range(1500))


def test_a_process_that_a_job_forks_does_not_become_a_worker(team, client, folder):
    (folder / "forks.py").write_text(
        """
import os, sys
from pinlater import Job


class Forks(Job, queue="forks"):
    def run(self, context):
        pid = os.fork()
        if pid:
            _, status = os.waitpid(pid, 0)
            with open("ran.txt", "a") as file:
                file.write(str(os.waitstatus_to_exitcode(status)))
"""
    )
    job = put(client, "Forks", "forks")
    worker = team(("forks.py", "--threads", 4), "--burst")
    assert worker.wait() == 0, worker.log
    assert ran(folder) == ["0"]
    assert info(client, job).state is JobState.SUCCEEDED

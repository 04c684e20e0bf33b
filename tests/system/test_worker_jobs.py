"""Jobs in a real worker: how they run, and what becomes of those that fail or kill their process."""

import os
import signal
import time

import pytest

from pinlater import JobState
from pinlater.client import NewJob
from tests.system.worker_program import await_state, environment_with, info, put, ran, wait_for


def test_a_burst_runs_every_job_once(start, client, folder):
    bodies = [b'{"job": "Touch", "number": %d}' % number for number in range(3000)]
    client.enqueue_jobs("touch", [NewJob(body) for body in bodies])
    worker = start("--burst", "--processes", 2)
    assert worker.wait() == 0, worker.log
    assert sorted(ran(folder)) == sorted(f"touch {number}" for number in range(3000))
    assert client.count("touch", JobState.SUCCEEDED) == 3000
    assert "2 processes for queues counts, fails, forks, holds, overdue, sleeps, steps, touch" in worker.log


def test_a_burst_waits_for_its_retries(start, client, folder):
    failing = put(client, "Fails", "fails", how="raise")
    retried = put(client, "Fails", "fails", how="retry")
    discarded = put(client, "Fails", "fails", how="discard")
    given_up = put(client, "Fails", "fails", how="give up")
    later = client.enqueue_jobs("fails", [NewJob(b"{}", run_after_ms=int((time.time() + 600) * 1000))])[0]
    worker = start("--burst", "--processes", 1)
    assert worker.wait() == 0, worker.log
    assert sorted(ran(folder)) == [
        "discard 1",
        "give up 1",
        *(f"{how} {n}" for how in ("raise", "retry") for n in (1, 2, 3)),
    ]
    status = info(client, failing).status
    assert [f"[attempt {n}/3 " in status for n in (1, 2, 3)] == [True] * 3
    assert "ValueError: the reason" in status
    assert 'raise ValueError("the reason")' in status
    assert "runner.py" not in status
    assert "come back later" in info(client, retried).status
    assert "Discard: never again" in info(client, discarded).status
    assert "KeyError: 'nowhere'" in info(client, given_up).status
    assert {info(client, job).state for job in (failing, retried, discarded, given_up)} == {JobState.FAILED}
    assert info(client, later).state is JobState.PENDING


@pytest.mark.parametrize("how", ["sys.exit", "interrupt"])
def test_what_would_end_a_program_ends_only_the_attempt(start, client, folder, how):
    job = put(client, "Fails", "fails", how=how)
    worker = start("--burst", "--processes", 1)
    assert worker.wait() == 0, worker.log
    assert ran(folder) == [f"{how} {n}" for n in (1, 2, 3)]
    assert info(client, job).state is JobState.FAILED
    assert worker.log.count("started") == 2, worker.log


@pytest.mark.parametrize(("how", "evidence"), [("kill", "killed by SIGKILL"), ("_exit", "exited with 0")])
def test_a_job_that_kills_its_process_fails_with_the_evidence(start, client, folder, how, evidence):
    poison = put(client, "Fails", "fails", how=how)
    worker = start("--processes", 1)
    status = await_state(client, poison, JobState.FAILED).status
    assert status.count(evidence) == 3, status
    assert "while it ran Fails" in status
    good = put(client, "Touch", "touch", number=1)
    await_state(client, good, JobState.SUCCEEDED)
    assert worker.stop() == 0


def test_a_burst_goes_on_when_a_job_leaves_its_process(start, client, folder):
    leaving = put(client, "Fails", "fails", how="_exit")
    others = [put(client, "Touch", "touch", number=number) for number in range(30)]
    worker = start("--burst", "--processes", 1)
    assert worker.wait() == 0, worker.log
    assert info(client, leaving).state is JobState.FAILED
    assert {info(client, job).state for job in others} == {JobState.SUCCEEDED}
    assert "exited with 0 (while it was working)" in worker.log


@pytest.mark.parametrize("how", [[], ["--threads", 2]])
def test_no_job_is_killed_for_the_one_before_it(start, client, folder, how):
    """A job that ends between the end of its ``kill_after`` and the kill, while the stacks are written."""
    late = put(client, "Late", "overdue")
    patient = environment_with(folder, "from pinlater_supervisor import watch\nwatch.DUMP_SECONDS = 600")
    worker = start("--processes", 1, *how, env=patient)
    wait_for(lambda: ran(folder) == ["late"], what=lambda: worker.log)
    for job in (late, put(client, "Next", "overdue")):
        found = await_state(client, job, JobState.SUCCEEDED)
        assert found.attempts_remaining == 3, found
    assert worker.stop() == 0


def test_a_job_past_its_timeout_fails_and_its_process_goes_on(start, client, folder):
    jobs = [put(client, "Overdue", "overdue", how="sleep"), put(client, "OverdueLater", "overdue")]
    worker = start("--burst", "--processes", 1)
    assert worker.wait() == 0, worker.log
    for job in jobs:
        found = info(client, job)
        assert found.state is JobState.FAILED
        assert found.status.count("JobTimeout: it ran for longer than its timeout of 0.3 s") == 3, found.status
    assert worker.log.count("started") == 2, worker.log


@pytest.mark.parametrize("how", ["catch", "hold"])
def test_a_job_that_heeds_no_timeout_is_killed(start, client, folder, how):
    job = put(client, "Heedless", "overdue", how=how)
    worker = start("--processes", 1)
    found = await_state(client, job, JobState.FAILED, seconds=100)
    assert ran(folder) == [f"{how} {attempt}" for attempt in (1, 2, 3)]
    assert found.status.count("time-out: the process died while it ran Heedless for ") == 3, found.status
    assert "poison" not in found.status
    assert "jobs.py" in worker.log, "where it was"
    good = put(client, "Touch", "touch", number=1)
    await_state(client, good, JobState.SUCCEEDED)
    assert worker.stop() == 0


def test_a_job_that_stands_still_fails_and_is_killed_if_it_does_not_heed_that(start, client, folder):
    soft = put(client, "Stalls", "overdue", how="sleep")
    worker = start("--processes", 1)
    found = await_state(client, soft, JobState.FAILED)
    assert found.status.count("JobStalled: it gave no sign of progress for 0.3 s, its stall_after") == 3, found.status
    hard = client.enqueue_jobs("overdue", [NewJob(b'{"job": "Stalls", "how": "hold"}', attempts=1)])[0]
    found = await_state(client, hard, JobState.FAILED, seconds=100)
    assert "time-out: the process died while it ran Stalls for 1" in found.status, "after 10.3 s"
    assert "poison" not in found.status
    assert "jobs.py" in worker.log, "where it was"
    assert ran(folder) == ["sleep 1", "sleep 2", "sleep 3", "hold 1"]
    assert worker.stop() == 0


def test_no_attempt_begins_when_the_time_of_all_is_over_and_one_that_runs_is_stopped(start, client, folder):
    left_lying = put(client, "Expires", "overdue")
    over_ms = info(client, left_lying).created_at_ms + 3000
    wait_for(lambda: time.time() * 1000 > over_ms)
    worker = start("--processes", 1)
    found = await_state(client, left_lying, JobState.FAILED)
    assert "JobExpired: it was not run, since its give_up_after of 3 s is over" in found.status
    assert ran(folder) == []
    stopped = put(client, "Expires", "overdue")
    found = await_state(client, stopped, JobState.FAILED)
    assert "its give_up_after of 3 s is over" in found.status
    assert ran(folder) in ([], ["expires 1"]), "a very busy machine may come too late"
    assert worker.stop() == 0


@pytest.mark.parametrize(("how", "evidence"), [("segfault", "killed by SIGSEGV"), ("_exit", "exited with 0")])
def test_poison_is_given_up_and_its_neighbours_are_not(start, client, folder, how, evidence):
    body = b'{"job": "Fails", "how": "%s"}' % how.encode()
    poisons = client.enqueue_jobs("fails", [NewJob(body, attempts=10) for _ in range(3)])
    good = client.enqueue_jobs("touch", [NewJob(b'{"job": "Touch", "number": %d}' % n) for n in range(200)])
    worker = start("--processes", 2)
    for job in poisons:
        found = await_state(client, job, JobState.FAILED, seconds=100)
        assert found.status.count("poison") == 1, found.status
        assert found.status.count(evidence) == 3, found.status
    for job in good:
        found = await_state(client, job, JobState.SUCCEEDED)
        assert found.attempts_remaining == found.attempts_allowed
    assert [line.split()[0] for line in ran(folder)].count(how) == 9
    assert worker.stop() == 0


def test_a_process_that_a_job_forks_does_not_become_a_worker(start, client, folder):
    jobs = [put(client, "Forks", "forks", how=how) for how in ("exits", "raises", "returns")]
    worker = start("--burst", "--processes", 1)
    assert worker.wait() == 0, worker.log
    assert sorted(ran(folder)) == ["exits 3", "raises 1", "returns 0"]
    assert {info.state for info in client.lookup(jobs).values()} == {JobState.SUCCEEDED}


def test_bodies_that_cannot_be_read_go_back_unspent(start, client):
    bodies = [b"\xff\x00", b'{"job": "Unheard"}', b'{"job": "Touch", "number": "x"}', b'{"job": "Touch", "number": 7}']
    jobs = client.enqueue_jobs("touch", [NewJob(body, attempts=1) for body in bodies])
    worker = start("--burst", "--processes", 2)
    assert worker.wait() == 0, worker.log
    infos = client.lookup(jobs)
    assert [infos[job].state for job in jobs] == [JobState.PENDING] * 3 + [JobState.SUCCEEDED]
    assert {infos[job].attempts_remaining for job in jobs} == {1}
    assert "no worker knows it: no job class is named 'Unheard'" in infos[jobs[1]].status
    assert "no worker knows it: the body of a Touch does not fit its class" in infos[jobs[2]].status
    assert "jobs of class Unheard were left in queue touch" in worker.log


def test_bodies_that_cannot_be_read_fail_in_the_end_and_harm_nobody(start, client):
    bodies = [b"\xff\x00", b'{"job": "Unheard"}', b'{"job": "Touch", "number": "x"}', b'{"job": "Touch", "number": 7}']
    jobs = client.enqueue_jobs("touch", [NewJob(body, attempts=1) for body in bodies])
    worker = start("--burst", "--processes", 1, "--unknown-after", "0")
    assert worker.wait() == 0, worker.log
    infos = client.lookup(jobs)
    assert [infos[job].state for job in jobs] == [JobState.FAILED] * 3 + [JobState.SUCCEEDED]
    assert "define a RawJob class" in infos[jobs[0]].status
    assert "no job class is named 'Unheard'" in infos[jobs[1]].status


def test_steps_survive_the_death_of_their_process(start, client, folder):
    job = put(client, "Steps", "steps")
    worker = start("--burst", "--processes", 1)
    assert worker.wait() == 0, worker.log
    assert ran(folder) == ["step first (1, 2)", "step second [1, 2]", "step third [1, 2]"]
    assert info(client, job).state is JobState.SUCCEEDED


def test_a_job_of_many_leases_runs_once(start, client, folder):
    sleeping = put(client, "Sleep", "sleeps", name="long", seconds=10)
    holding = put(client, "HoldInterpreter", "holds", seconds=10)
    worker = start("--lease", 2, "--processes", 3)
    for job in (sleeping, holding):
        assert await_state(client, job, JobState.SUCCEEDED).attempts_remaining == 3
    assert len([line for line in ran(folder) if line.startswith("begin")]) == 2
    assert worker.stop() == 0


def test_what_waits_behind_a_long_job_goes_to_others(start, client, folder):
    """Quick jobs let the process fetch many at once; the long one among them must not hold up the rest."""
    bodies = [b'{"job": "Touch", "number": %d}' % number for number in range(400)]
    quick = client.enqueue_jobs("touch", [NewJob(body) for body in bodies])
    worker = start("--processes", 1, "--queue", "touch", "--queue", "sleeps")
    wait_for(lambda: client.count("touch", JobState.SUCCEEDED) == 400)
    jobs = [NewJob(b'{"job": "Until", "name": "long"}')]
    jobs += [NewJob(b'{"job": "Sleep", "name": "short", "seconds": 0}') for _ in range(100)]
    long, *rest = client.enqueue_jobs("sleeps", jobs)
    wait_for(lambda: info(client, long).state is JobState.IN_PROGRESS)
    helper = start("--processes", 1, "--queue", "sleeps")
    wait_for(lambda: client.count("sleeps", JobState.SUCCEEDED) >= len(rest))
    assert info(client, long).state is JobState.IN_PROGRESS
    (folder / "go on").touch()
    assert await_state(client, long, JobState.SUCCEEDED).attempts_remaining == 2
    assert len(ran(folder)) == 400 + 2 * 101, "some ran twice"
    assert {info(client, job).attempts_remaining for job in rest} == {2}
    assert len(quick) == 400
    assert worker.stop() == helper.stop() == 0


def test_what_succeeded_before_a_long_job_is_known_before_its_end(start, client, folder):
    """Jobs of one dequeue; whoever waits for a quick one must not wait for the long one."""
    client.enqueue_jobs("touch", [NewJob(b'{"job": "Touch", "number": %d}' % number) for number in range(400)])
    worker = start("--processes", 1, "--queue", "touch", "--queue", "sleeps")
    wait_for(lambda: client.count("touch", JobState.SUCCEEDED) == 400)
    jobs = [NewJob(b'{"job": "Sleep", "name": "short", "seconds": 0}') for _ in range(100)]
    jobs += [NewJob(b'{"job": "Fills", "megabytes": 0, "file": "go on"}')]
    *rest, long = client.enqueue_jobs("sleeps", jobs)
    wait_for(lambda: client.count("sleeps", JobState.SUCCEEDED) == len(rest), what=lambda: worker.log)
    assert info(client, long).state is JobState.IN_PROGRESS
    (folder / "go on").touch()
    assert await_state(client, long, JobState.SUCCEEDED).attempts_remaining == 2
    assert len(ran(folder)) == 400 + 2 * 100 + 2, "some ran twice"
    assert worker.stop() == 0


def test_killing_a_process_costs_only_the_running_job_an_attempt(start, client, folder):
    jobs = [put(client, "Until", "sleeps", name=f"n{number}") for number in range(6)]
    worker = start("--processes", 2)
    wait_for(lambda: len(ran(folder)) >= 2)
    victim = int(ran(folder)[0].split()[-1])
    killed = ran(folder)[0].split()[1]
    assert victim in {child.pid for child in worker.children("jobs")}
    os.kill(victim, signal.SIGKILL)
    (folder / "go on").touch()
    infos = [await_state(client, job, JobState.SUCCEEDED) for job in jobs]
    assert [info.attempts_remaining for info in infos] == [2 if f"n{n}" == killed else 3 for n in range(6)]
    assert worker.stop() == 0

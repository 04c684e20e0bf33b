"""Workers with several pools of job processes."""

import signal

from pinlater import JobState
from tests.system.worker_program import await_state, info, put, ran, wait_for


def test_each_pool_serves_its_queues_with_its_processes(start, client, folder):
    worker = start("--queue", "sleeps=2", "--queue", "touch,counts:3=1")
    worker.await_log("2 processes for queue sleeps; 1 process for queues touch, counts:3 at ")
    wait_for(lambda: len(worker.children("jobs of sleeps")) == 2 and len(worker.children("jobs of touch,counts")) == 1)
    naps = [put(client, "Sleep", "sleeps", name=f"n{number}", seconds=60) for number in range(3)]
    wait_for(lambda: len(ran(folder)) == 2)
    for number in range(5):
        await_state(client, put(client, "Touch", "touch", number=number), JobState.SUCCEEDED)
    assert sorted(line.split()[0] for line in ran(folder)) == ["begin"] * 2 + ["touch"] * 5
    assert worker.stop(signal.SIGINT) == 0
    assert {info(client, nap).attempts_remaining for nap in naps} == {3}
    assert worker.log.count("processes for queue") == 1


def test_a_crash_loop_in_one_pool_leaves_the_others_alone(start, client, folder):
    worker = start("--processes", 1, "--queue", "touch", "--queue", "fails=1")
    worker.await_log("1 process for queue touch; 1 process for queue fails")
    wait_for(lambda: worker.children("jobs of fails"))
    [steady] = [child for child in worker.children("jobs") if "of fails" not in " ".join(child.cmdline())]
    killer = put(client, "Fails", "fails", how="kill")
    assert await_state(client, killer, JobState.FAILED).status.count("the process died") == 3
    await_state(client, put(client, "Touch", "touch", number=1), JobState.SUCCEEDED)
    assert steady.is_running()
    assert worker.stop() == 0


def test_the_death_of_a_process_spares_what_other_pools_hold(start, client, folder):
    """Each pool counts its processes from 0: the deaths of one must not clear the slots of another."""
    long = put(client, "Sleep", "sleeps", name="long", seconds=4)
    worker = start("--queue", "sleeps=1", "--queue", "touch=1", "--lease", 2)
    wait_for(lambda: ran(folder) and worker.children("jobs of touch"))
    worker.children("jobs of touch")[0].kill()
    worker.await_log("jobs of touch[0] pid")
    assert await_state(client, long, JobState.SUCCEEDED).attempts_remaining == 3
    assert worker.stop() == 0
    assert ran(folder) == [ran(folder)[0], "end long 1"]


def test_signals_change_the_first_pool(start):
    worker = start("--queue", "sleeps=1", "--queue", "touch", "--processes", 1)
    worker.await_log("at 127.0.0.1")
    worker.send(signal.SIGTTIN)
    worker.await_log("pool jobs: 2 children wanted")
    wait_for(lambda: len(worker.children("jobs")) == 3 and len(worker.children("jobs of sleeps")) == 1)
    assert worker.stop() == 0


def test_a_burst_ends_when_no_pool_has_anything_left(start, client, folder, server):
    put(client, "Hands", "holds", server=server.address)
    put(client, "Fails", "fails", how="raise")
    worker = start("--burst", "--queue", "touch=1", "--queue", "holds=1", "--queue", "fails=2")
    assert worker.wait() == 0
    assert sorted(ran(folder)) == ["raise 1", "raise 2", "raise 3", "touch 7"], worker.log
    assert client.count("touch", JobState.SUCCEEDED) == 1


def test_a_burst_survives_the_death_of_a_process(start, client, folder):
    killer = put(client, "Fails", "fails", how="kill")
    touched = put(client, "Touch", "touch", number=1)
    worker = start("--burst", "--queue", "touch=1", "--queue", "fails=1")
    assert worker.wait() == 0
    assert info(client, killer).state is JobState.FAILED
    assert info(client, touched).state is JobState.SUCCEEDED


def test_a_queue_that_no_class_names_is_served(start, client, folder):
    client.create_queue("express")
    worker = start("--processes", 1, "--queue", "touch", "--queue", "touhc", "--queue", "express")
    job = put(client, "Touch", "express", number=7)
    assert await_state(client, job, JobState.SUCCEEDED).status == ""
    assert ran(folder) == ["touch 7"]
    assert worker.log.count("no job class has the queue 'touhc' (did you mean 'touch'?); only jobs enqueued") == 1
    assert worker.log.count("no job class has the queue 'express'; only jobs enqueued") == 1
    assert worker.stop() == 0

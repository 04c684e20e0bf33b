"""Jobs that are cancelled while they run, wait in a worker, or do not stop."""

import pytest

from pinlater import JobState
from pinlater.client import NewJob
from tests.system.test_worker_metrics import figures
from tests.system.worker_program import add_jobs, await_state, job_module, put, ran, wait_for

QUEUES = {"Waits": "sleeps", "Beats": "counts"}

STUBBORN = job_module("""
import time

from pinlater import Job
from pinlater.jobs import options

options.CANCEL_PATIENCE_SECONDS = 1.0


class Spins(Job, queue="spins"):
    def run(self, context):
        write("Spins begin")
        while True:
            pass


class SpinsInSaga(Job, queue="spins", attempts=1):
    def run(self, context):
        with context.saga() as saga:
            saga.step("book", write, "booked", undo=lambda _: undo())
            context.step("spin", spin)


def undo():
    write("undo begins")
    time.sleep(2.5)  # longer than a cancelled job is given to stop
    write("undone")


def spin():
    write("spins")
    while True:
        pass
""")


@pytest.mark.parametrize("places", [(), ("--threads", 2), ("--concurrency", 2)], ids=["alone", "threads", "tasks"])
def test_a_running_job_stops_and_is_cancelled(client, folder, start, places):
    add_jobs(folder, "endless")
    worker = start("--processes", 2, "--lease", 600, "--health", 0, *places, modules=("endless",))
    jobs = {kind: put(client, kind, queue) for kind, queue in QUEUES.items()}
    wait_for(lambda: {f"{kind} begin" for kind in jobs} <= set(ran(folder)), what=lambda: worker.log)
    for kind, job in jobs.items():  # long before a lease is renewed
        assert client.cancel_these(QUEUES[kind], [job], status="by ada\n") == 1
        await_state(client, job, JobState.FAILED)
        [info] = client.lookup([job]).values()
        assert info.is_cancelled
        assert "by ada\n" in info.status
        assert "JobCancelled" in info.status
        assert f"{kind} cleanup" in ran(folder)
    [after] = client.enqueue_jobs("touch", [NewJob(b'{"job":"Ends"}')])
    await_state(client, after, JobState.SUCCEEDED)
    for kind, queue in QUEUES.items():
        assert figures(worker)["jobs_total", queue, kind, "cancelled"] == 1
    assert worker.stop() == 0
    assert "Traceback" not in worker.log


def test_the_process_of_a_job_that_does_not_stop_is_killed_and_others_go_on(client, folder, start):
    add_jobs(folder, "endless")
    (folder / "stubborn.py").write_text(STUBBORN)
    worker = start("--processes", 2, "--lease", 600, "--health", 0, modules=("endless", "stubborn"))
    stubborn, neighbour = put(client, "Spins", "spins"), put(client, "Beats", "counts")
    wait_for(lambda: {"Spins begin", "Beats begin"} <= set(ran(folder)), what=lambda: worker.log)
    behind = put(client, "Spins", "spins")
    client.cancel_these("spins", [stubborn, behind])
    await_state(client, stubborn, JobState.FAILED)
    [info] = client.lookup([stubborn]).values()
    assert info.is_cancelled
    assert "cancelled, and did not stop in time: the process died while it ran Spins" in info.status
    assert client.lookup([behind])[behind].is_cancelled
    assert client.lookup([neighbour])[neighbour].state is JobState.IN_PROGRESS
    assert sorted(ran(folder)) == ["Beats begin", "Spins begin"]
    [after] = client.enqueue_jobs("touch", [NewJob(b'{"job":"Ends"}')])
    await_state(client, after, JobState.SUCCEEDED)
    assert figures(worker)["jobs_total", "spins", "Spins", "cancelled"] == 1
    client.cancel_these("counts", [neighbour])
    await_state(client, neighbour, JobState.FAILED)
    assert worker.stop() == 0


def test_what_a_job_did_that_does_not_stop_is_undone_and_has_its_time(client, folder, start):
    (folder / "stubborn.py").write_text(STUBBORN)
    worker = start("--processes", 2, "--lease", 600, "--health", 0, modules=("stubborn",))
    stubborn = put(client, "SpinsInSaga", "spins")
    wait_for(lambda: "spins" in ran(folder), what=lambda: worker.log)
    client.cancel_these("spins", [stubborn], status="by ada\n")
    await_state(client, stubborn, JobState.FAILED)
    assert ran(folder) == ["booked", "spins", "undo begins", "undone"]
    [info] = client.lookup([stubborn]).values()
    assert info.is_cancelled
    assert "cancelled, and did not stop in time: the process died while it ran SpinsInSaga" in info.status
    assert "SagaUndone" in info.status
    assert worker.stop() == 0

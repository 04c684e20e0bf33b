"""Jobs that are deleted while they run: they end soon, and nobody calls them a success."""

import psutil
import pytest

from pinlater import JobState
from pinlater.client import NewJob
from tests.system.test_worker_metrics import figures
from tests.system.worker_program import add_jobs, await_state, put, ran, wait_for

QUEUES = {"Waits": "sleeps", "Beats": "counts"}


@pytest.mark.parametrize("places", [(), ("--threads", 2), ("--concurrency", 2)], ids=["alone", "threads", "tasks"])
def test_a_job_that_is_deleted_while_it_runs_ends_and_is_no_success(client, folder, start, places):
    add_jobs(folder, "endless")
    worker = start("--processes", 2, "--lease", 2, "--health", 0, *places, modules=("endless",))
    jobs = {kind: put(client, kind, queue) for kind, queue in QUEUES.items()}
    wait_for(lambda: {f"{kind} begin" for kind in jobs} <= set(ran(folder)), what=lambda: worker.log)
    for kind, job in jobs.items():
        assert client.delete_these(QUEUES[kind], [job], JobState.IN_PROGRESS) == 1
        assert client.lookup([job]) == {}
        wait_for(lambda name=kind: f"{name} cleanup" in ran(folder), what=lambda: worker.log)
    [after] = client.enqueue_jobs("touch", [NewJob(b'{"job":"Ends"}')])
    await_state(client, after, JobState.SUCCEEDED)
    for kind, queue in QUEUES.items():
        wait_for(
            lambda at=(queue, kind, "lost"): figures(worker).get(("jobs_total", *at)) == 1, what=lambda: worker.log
        )
        assert ("jobs_total", queue, kind, "succeeded") not in figures(worker)
    assert worker.stop() == 0
    assert worker.log.count("has lost its claim") == 2


def test_a_worker_that_stood_still_learns_that_its_job_went_on_elsewhere(client, folder, start):
    add_jobs(folder, "endless")
    first = start("--processes", 1, "--lease", 2, modules=("endless",))
    job = put(client, "Beats", "counts")
    wait_for(lambda: "Beats begin" in ran(folder), what=lambda: first.log)
    frozen = [psutil.Process(first.process.pid), *first.children("pinlater-worker")]
    for process in frozen:
        process.suspend()
    start("--processes", 1, modules=("endless",))
    wait_for(lambda: ran(folder).count("Beats begin") == 2)
    for process in frozen:
        process.resume()
    first.await_log("has lost its claim", 60)
    assert ran(folder).count("Beats cleanup") == 1
    assert client.lookup([job])[job].state is JobState.IN_PROGRESS

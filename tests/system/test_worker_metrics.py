"""The figures of a real worker, over deaths and recycling of its processes."""

import http.client
import re
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pinlater import Job
from pinlater.client import NewJob
from pinlater.model.state import JobState
from pinlater.model.statistics import MINUTE, StatisticsKind, total
from tests.system.worker_program import await_state, put, wait_for


class Touch(Job, queue="touch"):
    number: int


FETCHES_AHEAD = """
from pinlater.worker.session import pace
from jobs import Sleep

__all__ = ["Sleep"]

pace.TARGET_SECONDS = 60  # however long the short jobs take on a busy machine
"""


def figures(worker):
    wait_for(lambda: "health checks at http://" in worker.log, what=lambda: worker.log)
    connection = http.client.HTTPConnection(re.search(r"health checks at http://([\d.:]+)", worker.log)[1], timeout=10)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return {
        (sample.name.removeprefix("pinlater_worker_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def history(client, queue, name):
    """Return what the server was told of a class: successes, failures, run times, and whether there are waits."""
    found = total(
        client.statistics(
            StatisticsKind.CLASS,
            resolution=MINUTE,
            since_ms=int(time.time() * 1000) - 3_600_000,
            queues=[queue],
            name=name,
        )
    )
    return found.succeeded, found.failed, found.run.count, found.wait.count > 0


@pytest.mark.parametrize("several", [(), ("--threads", 2)])
def test_what_becomes_of_jobs_is_counted_over_deaths_and_recycling(start, client, several):
    before = {name: history(client, name.lower(), name) for name in ("Touch", "Fails")}
    worker = start("--processes", 1, "--max-jobs", 3, "--health", "0", "--unknown-after", "0", *several)
    for number in range(7):
        await_state(client, put(client, "Touch", "touch", number=number), JobState.SUCCEEDED)
    for how in ("raise", "retry", "discard", "give up", "kill"):
        await_state(client, put(client, "Fails", "fails", how=how), JobState.FAILED)
    await_state(client, put(client, "Overdue", "overdue", how="doze"), JobState.FAILED)
    await_state(client, put(client, "Heedless", "overdue", how="hold"), JobState.FAILED)
    [unreadable] = client.enqueue_jobs("touch", [NewJob(b"{}", attempts=1)])
    await_state(client, unreadable, JobState.FAILED)
    expected = {
        ("touch", "Touch", "succeeded"): 7,
        ("fails", "Fails", "failed"): 3,
        ("fails", "Fails", "retried"): 3,
        ("fails", "Fails", "discarded"): 1,
        ("fails", "Fails", "given_up"): 1,
        ("fails", "Fails", "crashed"): 2,
        ("fails", "Fails", "poison"): 1,
        ("overdue", "Overdue", "timed_out"): 3,
        ("overdue", "Heedless", "timed_out"): 3,
        ("touch", "(unreadable)", "unreadable"): 1,
    }

    def counted():
        return {key[1:]: value for key, value in figures(worker).items() if key[0] == "jobs_total" and value}

    wait_for(lambda: counted() == expected, what=counted)
    wait_for(lambda: figures(worker)["jobs_running", "jobs", "touch"] == 0)
    found = figures(worker)
    assert found["job_seconds_count", "touch", "Touch"] == 7
    assert found["job_seconds_sum", "overdue", "Heedless"] > 1
    assert found["process_exits_total", "jobs", "done"] >= 2
    assert found["process_exits_total", "jobs", "signal"] == 3
    assert found["process_exits_total", "jobs", "time_out"] >= 2
    assert worker.stop() == 0
    wait_for(lambda: history(client, "touch", "Touch")[0] == 7 + before["Touch"][0])
    wait_for(lambda: history(client, "fails", "Fails")[1] == 3 + 3 + 1 + 1 + 3 + before["Fails"][1])
    assert history(client, "touch", "Touch")[2:] == (history(client, "touch", "Touch")[0], True)


def test_running_jobs_are_seen(start, client, folder):
    worker = start("--processes", 2, "--health", "0")
    for number in range(2):
        put(client, "Until", "sleeps", name=f"n{number}")
    wait_for(lambda: figures(worker).get(("jobs_running", "jobs", "sleeps")) == 2, what=lambda: worker.log)
    (folder / "go on").touch()
    wait_for(lambda: figures(worker)["jobs_running", "jobs", "sleeps"] == 0, what=lambda: worker.log)
    assert worker.stop() == 0


def test_a_batch_is_counted_as_a_batch_and_not_as_a_class_of_the_worker(start, client):
    worker = start("--processes", 1, "--health", "0")
    assert client.batch([Touch(number=1), Touch(number=2)]).result(timeout=60).succeeded == 2
    counted = {key[1:]: number for key, number in figures(worker).items() if key[0] == "jobs_total" and number}
    assert counted.pop(("touch", "Touch", "succeeded")) == 2
    assert {(queue, name) for queue, name, _ in counted} == {("touch", "pinlater.batch")}
    assert worker.stop() == 0


@pytest.mark.parametrize("several", [(), ("--threads", 2)])
def test_checkpoints_are_counted_by_queue(start, client, several):
    worker = start("--processes", 1, "--health", "0", *several)
    await_state(client, put(client, "Count", "counts", to=7), JobState.SUCCEEDED)
    found = figures(worker)
    assert found["checkpoints_total", "counts"] >= (1 if several else 7), "in a team, the latest one is sent"
    assert found["checkpoints_lost_total", "counts"] == 0
    assert worker.stop() == 0


def test_jobs_that_go_back_unstarted_are_counted(start, client, folder):
    (folder / "ahead.py").write_text(FETCHES_AHEAD)
    seconds = [0] * 60 + [0.6] * 3
    descriptors = [put(client, "Sleep", "sleeps", name="nap", seconds=each) for each in seconds]
    worker = start("--processes", 1, "--health", "0", modules=("ahead",))
    for descriptor in descriptors:
        await_state(client, descriptor, JobState.SUCCEEDED)
    wait_for(lambda: figures(worker)["jobs_total", "sleeps", "Sleep", "succeeded"] == 63, what=lambda: worker.log)
    assert figures(worker)["jobs_returned_total", "sleeps"] >= 1, "a long job comes after what was fetched ahead"
    assert worker.stop() == 0

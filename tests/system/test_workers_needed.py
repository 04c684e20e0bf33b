"""How many workers a queue needs: told by a real worker, computed by a real server."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pinlater import Client, JobState
from pinlater.client import NewJob
from tests.support.server import ServerProcess, wait_for
from tests.system.worker_program import Worker

JOBS = """
import time
from pinlater import Job

class Draw(Job, queue="photos", latency_target=2):
    seconds: float

    def run(self, context):
        time.sleep(self.seconds)

class Other(Job, queue="others"):
    def run(self, context):
        pass
"""


@pytest.fixture
def server(tmp_path):
    with ServerProcess(tmp_path / "server", QUEUE_METRICS_INTERVAL_SECONDS="0.2") as server:
        yield server


@pytest.fixture
def start(tmp_path, server):
    (tmp_path / "scaled.py").write_text(JOBS)
    workers = []

    def start(*arguments):
        workers.append(Worker(tmp_path, "scaled", "--server", server.address, *arguments))
        return workers[-1]

    yield start
    for worker in workers:
        worker.end()


def gauges(server, name):
    found = {}
    for family in text_string_to_metric_families(server.page("/metrics")[1]):
        if family.name == f"pinlater_queue_{name}":
            found = {sample.labels["queue"]: sample.value for sample in family.samples}
    return found


def draw(client, seconds, count):
    client.enqueue_jobs("photos", [NewJob(b'{"job": "Draw", "seconds": %g}' % seconds)] * count)


@pytest.mark.parametrize("several", [(), ("--threads", 3)])
def test_the_need_of_a_queue_follows_its_jobs_and_outlives_its_workers(server, start, several):
    def needed():
        return gauges(server, "workers_needed")["photos"]

    with Client(server.address) as client:
        worker = start("--processes", 2, *several)
        slots = 2 * (3 if several else 1)
        wait_for(lambda: gauges(server, "worker_slots") == {"photos": slots}, 60, lambda: worker.log)
        assert gauges(server, "latency_target_seconds") == {"photos": 2}
        assert gauges(server, "workers_needed") == {"photos": 0}
        # Runs take a quarter of the target, so slots for a quarter of the waiting jobs are needed.
        draw(client, 0.5, 400)
        # At first more: jobs that come within half a second of the life of a queue seem to be hundreds a second.
        wait_for(lambda: 60 <= needed() <= 400, 60, needed)
        assert set(gauges(server, "workers_needed")) == {"photos"}
        # It never says that slots with running jobs are not needed, even if nothing waits.
        client.delete_jobs("photos", JobState.PENDING)
        draw(client, 60, slots)
        wait_for(lambda: gauges(server, "running_jobs").get("photos") == slots, 60)
        wait_for(lambda: needed() >= slots, 60, needed)
        worker.end()
        for report in client.workers():
            client.report_worker(report, 0)
        wait_for(lambda: gauges(server, "worker_slots") == {"photos": 0}, 60)
        draw(client, 0.5, 400)
        wait_for(lambda: needed() >= 60, 60, needed)


def test_a_queue_without_a_target_has_no_need(server, start):
    with Client(server.address) as client:
        worker = start("--processes", 1, "--queue", "others")
        wait_for(client.workers, 60, lambda: worker.log)
        client.enqueue_jobs("others", [NewJob(b'{"job": "Other"}')] * 3)
        wait_for(lambda: "others" in gauges(server, "oldest_due_age_seconds"), 60)
        assert gauges(server, "workers_needed") == {}
        [report] = client.workers()
        assert report.loads == ()

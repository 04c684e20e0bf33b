"""A real Prometheus scrapes a real server and a real worker, and answers every query of the dashboard."""

import contextlib
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from tests.support.apache import DeclaredError
from tests.support.monitoring import FOLDER, dashboard_queries, metrics_in, metrics_on, program
from tests.support.ports import free_port
from tests.support.server import ServerProcess, environment, wait_for

SELDOM = ("pinlater_calls_shed_total", "pinlater_reported_clock_ahead_seconds", "pinlater_reported_memory_growth_bytes")
"""Nothing of the test makes the store fall behind, a clock wrong, or a process grow."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = ServerProcess(
        tmp_path_factory.mktemp("scraped") / "server",
        QUEUE_METRICS_INTERVAL_SECONDS="0.2",
        BACKEND_MONITOR_THREAD_DELAY_SECONDS="0.1",
    )
    yield server
    assert server.stop() == 0


JOBS = """
from pinlater import Job, JobContext

class Count(Job, queue="counts", attempts=1, latency_target=5):
    number: int

    def run(self, context: JobContext) -> None:
        context.checkpoint()
        if self.number % 5 == 0:
            raise ValueError(self.number)
"""


@pytest.fixture(scope="module")
def worker(tmp_path_factory, server):
    """Address of the metrics of a worker, whose processes are replaced after some jobs."""
    folder = tmp_path_factory.mktemp("worker")
    (folder / "count_jobs.py").write_text(JOBS)
    with server.client() as client:
        client.createQueue(name="counts")
    command = [sys.executable, "-m", "pinlater.worker.program", "count_jobs", "--server", server.address]
    command += ["--processes", "1", "--max-jobs", "10", "--health", "0"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environment()
        )

    def address():
        assert process.poll() is None, (folder / "log").read_text()
        return re.search(r"health checks at http://([\d.:]+)", (folder / "log").read_text())

    try:
        yield wait_for(address, 50)[1]
    finally:
        process.terminate()
        process.wait(40)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory, server, worker):
    """Ask it: a function that takes a query and returns the result."""
    folder = tmp_path_factory.mktemp("prometheus")
    port = free_port()
    config = (FOLDER / "prometheus.yml").read_text().replace("127.0.0.1:9999", f"127.0.0.1:{server.admin_port}")
    config = config.replace("127.0.0.1:9998", worker)
    config = config.replace("interval: 15s", "interval: 1s").replace("alerts.yml", str(FOLDER / "alerts.yml"))
    (folder / "prometheus.yml").write_text(config)
    command = [program("prometheus"), f"--config.file={folder / 'prometheus.yml'}"]
    command += [f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def ask(query):
        parameters = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{parameters}", timeout=20) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        return found["data"]["result"]

    def is_up():
        assert process.poll() is None, (folder / "log").read_text()
        try:
            return ask('up{job="pinlater"} == 1')
        except urllib.error.HTTPError as error:  # 503 while it starts
            error.close()
        except OSError:
            pass

    try:
        wait_for(is_up, 50)
        yield ask
    finally:
        process.terminate()
        process.wait(20)


def some_of_everything(server):
    """Let each kind of thing happen once."""
    with server.client() as client:
        client.createQueue(name="email")
        client.enqueueJobs(queueName="email", jobs=[{"body": b"x", "numAttemptsAllowed": 5}] * 10)
        taken = client.dequeueJobs(queueName="email", limit=4)
        names = list(taken["jobs"])
        claim = taken["jobMetadata"][names[0]]["claimDescriptor"]
        acks = {"queueName": "email", "jobsSucceeded": [{"jobDescriptor": names[0], "claimDescriptor": claim}]}
        acks["jobsFailed"] = [{"jobDescriptor": names[1], "claimDescriptor": claim}]
        client.ackDequeuedJobs(**acks)
        client.ackDequeuedJobs(**acks)  # both are stale now
        client.dequeueJobs(queueName="email", limit=1, claimTimeoutMillis=100)  # runs out
        client.createQueue(name="empty")
        client.dequeueJobs(queueName="empty", limit=1)
        with contextlib.suppress(DeclaredError):
            client.getJobCount(queueName="missing", jobState=0)
        client.enqueueJobs(queueName="email", jobs=[{"body": b"y", "numAttemptsAllowed": 1}])
        bodies = [json.dumps({"job": "Count", "number": number}).encode() for number in range(10)]
        client.enqueueJobs(queueName="counts", jobs=[{"body": body, "numAttemptsAllowed": 1} for body in bodies])


def test_prometheus_answers_each_query_of_the_autoscaler_with_one_number(server, prometheus):
    files = (FOLDER.parents[1] / "deploy" / "kubernetes" / "keda").glob("*.yaml")
    queries = [query for file in files for query in re.findall(r"query: (.*)", file.read_text())]
    assert len(queries) == 4
    some_of_everything(server)
    for query in {re.sub(r'queue="\w+"', 'queue="counts"', query) for query in queries}:
        wait_for(lambda query=query: len(prometheus(query)) == 1, 60, lambda query=query: query)


def test_prometheus_answers_the_queries_of_the_dashboard(server, prometheus):
    open_queries = [query for query in dashboard_queries() if not any(name in query for name in SELDOM)]
    assert len(open_queries) > 35
    deadline = time.monotonic() + 100
    while open_queries:
        some_of_everything(server)
        time.sleep(1)
        open_queries = [query for query in open_queries if not prometheus(query)]
        assert time.monotonic() < deadline, open_queries
    for query in dashboard_queries():
        prometheus(query)  # also those without a result are understood


def test_the_figures_of_the_queues_are_right(server, prometheus):
    with server.client() as client:
        client.createQueue(name="counted")
        client.enqueueJobs(queueName="counted", jobs=[{"body": b"x"}] * 7)
        client.dequeueJobs(queueName="counted", limit=3)

    def figure(name):
        result = prometheus(f'{name}{{queue="counted"}}')
        return float(result[0]["value"][1]) if result else None

    wait_for(lambda: figure("pinlater_queue_running_jobs") == 3, 50)
    wait_for(lambda: figure("pinlater_queue_backlog_jobs") == 4, 50)
    wait_for(lambda: (figure("pinlater_queue_oldest_due_age_seconds") or 0) > 1, 50)
    assert figure("pinlater_queue_backlog_seconds") == 4 * 300  # nothing was completed


def test_the_figures_of_what_does_not_run_are_right(server, prometheus):
    in_an_hour = int(time.time() * 1000) + 3_600_000
    with server.client() as client:
        client.createQueue(name="troubled")
        jobs = [{"body": b"x", "numAttemptsAllowed": attempts} for attempts in (1, 1, 3)]
        client.enqueueJobs(queueName="troubled", jobs=jobs)
        taken = client.dequeueJobs(queueName="troubled", limit=3)
        later = [{"jobDescriptor": name, "retryDelayMillis": 3_600_000} for name in taken["jobs"]]
        client.ackDequeuedJobs(queueName="troubled", jobsFailed=later)
        client.enqueueJobs(queueName="troubled", jobs=[{"body": b"x", "runAfterTimestampMillis": in_an_hour}] * 4)
        client.changeQueueSettings(queueName="troubled", isPaused=True)

    def figure(name, **labels):
        chosen = ",".join(f'{label}="{value}"' for label, value in labels.items())
        result = prometheus(f"{name}{{{chosen}}}")
        return float(result[0]["value"][1]) if result else None

    expected = {"failed_jobs": 2, "scheduled_jobs": 4, "retrying_jobs": 1, "paused": 1}
    for noun, value in expected.items():
        assert wait_for(lambda: figure(f"pinlater_queue_{noun}", queue="troubled") == value, 50), noun  # noqa: B023
    assert wait_for(lambda: figure("pinlater_jobs_given_up_total", queue="troubled") == 2, 50)
    assert figure("pinlater_store_bytes", shard="1") > 4096
    assert figure("pinlater_store_free_bytes", shard="1") > 4096


def test_every_metric_of_the_dashboard_is_on_a_page(server, worker):
    with server.client() as client:
        client.createQueue(name="any")
    with urllib.request.urlopen(f"http://{worker}/metrics", timeout=20) as answer:
        of_worker = metrics_on(answer.read().decode())
    named = metrics_in("\n".join(dashboard_queries()))
    assert wait_for(lambda: named <= metrics_on(server.page("/metrics")[1]) | of_worker)

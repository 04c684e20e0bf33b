"""Workers report themselves over the wire, and everybody sees them; and since when jobs wait."""

import time

import pytest

from pinlater.client import Client, NewJob, QueueLoad, RunningJob, WorkerProcess, WorkerReport
from pinlater.errors import UnknownError
from tests.support.apache import DeclaredError, TApplicationException
from tests.support.server import ServerProcess, wait_for

FULL = WorkerReport(
    "web1:42:1700000000000",
    "web1",
    42,
    "1.2.3",
    "3.11.7",
    1_700_000_000_000,
    True,
    [
        WorkerProcess(
            43,
            "fast",
            ["pins", "mail"],
            1_700_000_000_500,
            2**33,
            4,
            2**40,
            [RunningJob("pins:s1:p1:7", 1_700_000_001_000)],
        ),
        WorkerProcess(44, "", [], None, None, None, None, []),
    ],
    loads=(QueueLoad("mail", 5000, 4, 1, 60_000, 2**40, 2**40), QueueLoad("pins", 1)),
)


@pytest.fixture
def client(shared_server):
    with Client(f"127.0.0.1:{shared_server.port}", source="reporter") as client:
        yield client
        for report in client.workers():
            client.report_worker(report, 0)
        assert client.workers() == []


def test_a_full_report_comes_back_as_it_was(client):
    began_ms = time.time() * 1000 - 1000
    client.report_worker(FULL, 60)
    (found,) = client.workers()
    assert found._replace(reported_ms=None) == FULL
    assert began_ms < found.reported_ms < began_ms + 60_000


def test_a_worker_is_lost_when_its_connection_ends_without_a_word(client, shared_server):
    def report(name, *sent):
        with Client(f"127.0.0.1:{shared_server.port}") as its_own:
            for sent_ms in sent:
                its_own.report_worker(FULL._replace(id=name, sent_ms=sent_ms), 60)

    report("connects each time", 1)
    report("reports elsewhere", 1, 2)
    report("killed", 1, 2)
    report("reports elsewhere", 3)
    with Client(f"127.0.0.1:{shared_server.port}") as its_own:
        its_own.report_worker(FULL._replace(id="ends", sent_ms=1), 60)
        its_own.report_worker(FULL._replace(id="ends", sent_ms=2), 0)
    wait_for(lambda: [report for report in client.workers() if report.lost_ms], 60)
    found = {report.id: report for report in client.workers()}
    assert {name for name, report in found.items() if report.lost_ms} == {"killed"}
    assert set(found) == {"connects each time", "reports elsewhere", "killed"}
    assert found["killed"].sent_ms is None, "it would say that its clock is off"
    report("killed", 3)
    assert {report.lost_ms for report in client.workers()} == {None}, "it lives after all"


def test_nobody_can_report_itself_as_lost(client):
    client.report_worker(FULL._replace(lost_ms=5), 60)
    assert client.workers()[0].lost_ms is None


def test_the_server_says_when_a_report_came(client):
    client.report_worker(FULL._replace(reported_ms=5), 60)
    assert client.workers()[0].reported_ms > 1_700_000_000_000


def test_workers_come_by_host_and_the_last_report_counts(client):
    for host, name in (("b", "2"), ("a", "3"), ("b", "1"), ("a", "3")):
        client.report_worker(WorkerReport(name, host), 60)
    client.report_worker(WorkerReport("3", "a", 7), 60)
    assert [(found.host, found.id, found.pid) for found in client.workers()] == [
        ("a", "3", 7),
        ("b", "1", None),
        ("b", "2", None),
    ]


def test_a_worker_without_new_reports_is_forgotten(client):
    client.report_worker(WorkerReport("short", "a"), 0.2)
    client.report_worker(WorkerReport("long", "a"), 60)
    wait_for(lambda: [found.id for found in client.workers()] == ["long"])


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (WorkerReport("", "a"), "workerId"),
        (WorkerReport("x" * 201, "a"), "1 to 200"),
        (WorkerReport("x\0", "a"), "printable"),
        (WorkerReport("x", ""), "host"),
        (WorkerReport("x", "h" * 256), "host"),
        (WorkerReport("x", "a\x1b[31m"), "printable"),
        (WorkerReport("x", "a", version="v" * 256), "version"),
        (WorkerReport("x", "a", processes=[WorkerProcess(1, "p" * 256)]), "pool"),
        (WorkerReport("x", "a", processes=[WorkerProcess(1, queues=["a-b"])]), "a-b"),
        (WorkerReport("x", "a", processes=[WorkerProcess(1, jobs=[RunningJob("nothing", 1)])]), "descriptor"),
        (WorkerReport("x", "a", loads=[QueueLoad("a-b", 1)]), "a-b"),
        (WorkerReport("x", "a", loads=[QueueLoad("mail", 0)]), "latencyTargetMillis of queue mail"),
        (WorkerReport("x", "a", loads=[QueueLoad("mail", 1, runs=-1)]), "jobsEnded of queue mail"),
        (
            WorkerReport("x", "a", processes=[WorkerProcess(1, jobs=[RunningJob("pins:s1:p1:7", 1)] * 10_000)]),
            "leave out some of the running jobs",
        ),
    ],
)
def test_what_cannot_be_is_refused(client, wrong, text):
    with pytest.raises(Exception, match=text):
        client.report_worker(wrong, 60)
    assert client.workers() == []


@pytest.mark.parametrize("keep", [-1, 86_401])
def test_for_how_long_a_report_can_be_kept(client, keep):
    client.report_worker(FULL, 86_400)
    with pytest.raises(UnknownError, match="cannot be kept"):
        client.report_worker(FULL, keep)


def test_another_language_sees_and_says_the_same(shared_server, client):
    client.report_worker(FULL, 60)
    with shared_server.client() as other:
        (found,) = other.getWorkers()
        assert found.pop("reportedAtTimestampMillis") > 1_700_000_000_000
        assert found["workerId"] == FULL.id
        assert found["processes"][0]["runningJobs"] == [
            {"jobDescriptor": "pins:s1:p1:7", "startedAtTimestampMillis": 1_700_000_001_000}
        ]
        other.reportWorker(worker=found, keepMillis=60_000)
        assert client.workers()[0]._replace(reported_ms=None) == FULL
        other.reportWorker(worker={"workerId": "bare", "host": "a"}, keepMillis=60_000)
        assert client.workers()[0]._replace(reported_ms=None) == WorkerReport("bare", "a", processes=[])


@pytest.mark.parametrize(
    ("worker", "text"),
    [
        ({"host": "a"}, "workerId"),
        ({"workerId": "x"}, "host"),
        ({"workerId": "x", "host": "a", "processes": [{}]}, "pid"),
        ({"workerId": "x", "host": "a", "processes": [{"pid": 1, "runningJobs": [{}]}]}, "jobDescriptor"),
    ],
)
def test_what_is_missing_is_named(shared_server, worker, text):
    with shared_server.client() as other, pytest.raises(TApplicationException, match=text):
        other.reportWorker(worker=worker, keepMillis=1000)


def test_reports_survive_a_killed_server(tmp_path):
    with ServerProcess(tmp_path) as server, Client(f"127.0.0.1:{server.port}") as client:
        client.report_worker(FULL, 3600)
        server.kill()
        server.start()
        assert client.workers()[0]._replace(reported_ms=None) == FULL


# Since when jobs wait


@pytest.fixture
def queues(client):
    names = ["waits_a", "waits_b", "waits_c", "waits_d"]
    for name in names:
        client.create_queue(name)
    yield names
    for name in names:
        client.delete_queue(name, "open sesame")


def test_the_oldest_due_job_of_any_priority_counts(client, queues):
    now_ms = int(time.time() * 1000)
    client.enqueue_jobs("waits_a", [NewJob(b"x", 1, now_ms - 5000), NewJob(b"x", 2, now_ms - 9000)])
    client.enqueue_jobs("waits_b", [NewJob(b"x", 1, now_ms - 7000), NewJob(b"x", 1, now_ms + 3_600_000)])
    client.enqueue_jobs("waits_c", [NewJob(b"x", 1, now_ms + 3_600_000)])
    assert client.oldest_due(queues) == {"waits_a": now_ms - 9000, "waits_b": now_ms - 7000}
    assert client.oldest_due(["waits_b", "waits_b", "not_there"]) == {"waits_b": now_ms - 7000}
    found = client.oldest_due()
    assert {queue: found.get(queue) for queue in queues} == client.oldest_due(queues) | {
        "waits_c": None,
        "waits_d": None,
    }
    client.dequeue_jobs("waits_b", 1)
    assert "waits_b" not in client.oldest_due(queues)


def test_names_that_no_queue_can_have(shared_server, client):
    with pytest.raises(Exception, match="a-b"):
        client.oldest_due(["a-b"])
    with shared_server.client() as other:
        with pytest.raises(DeclaredError, match="Invalid queue name"):
            other.getOldestDueTimestamps(queueNames=["a b"])
        with pytest.raises(TApplicationException, match="queueNames"):
            other.getOldestDueTimestamps()

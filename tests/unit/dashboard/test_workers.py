"""Workers on the dashboard: what they report and what the claims say, put together; and its pages."""

import html
import re
import time

import pytest

from pinlater import Client
from pinlater.dashboard.claim_holders import ClaimDirectory, ClaimScan, HolderClaims, JobClaim
from pinlater.dashboard.figures import DEQUEUED, STATE_GAUGES, ServerFigures, ServerProcess
from pinlater.dashboard.first_seen import ClaimHolder, FirstSeen
from pinlater.dashboard.history import History
from pinlater.dashboard.workforce import run_of, worker_overview
from pinlater.model.attempts import Ack
from pinlater.model.class_name import NO_CLASS
from pinlater.model.jobs import JobInfo, NewJob
from pinlater.model.state import JobState
from pinlater.model.workers import RunningJob, UnknownJobs, WorkerProcess, WorkerReport
from tests.support.server import wait_for


def ago_ms(hours):
    """Return the time so many hours ago; asked when it is needed, for the pages count from their own time."""
    return int(time.time() * 1000) - hours * 3_600_000


def job(number):
    return f"pins:s1:p1:{number}"


def claimed(*numbers, since_ms=500):
    infos = [JobInfo(job(number), JobState.IN_PROGRESS, 3, 2) for number in numbers]
    return [JobClaim("pins", info.descriptor, since_ms, info=info) for info in infos]


def claims_by(has_more=False, **held):
    """ClaimScan of processes, given as ``web1_42=[...]``, and of others, given by any name."""
    by_holder = {}
    for name, jobs in held.items():
        host, _, pid = name.partition("_")
        holder = ClaimHolder(f"worker:{host}:{pid}", host, int(pid)) if pid else ClaimHolder(name)
        by_holder[holder] = HolderClaims(holder, jobs)
    return ClaimScan(by_holder, sum(map(len, held.values())), has_more)


def report(name="a", host="web1", processes=(), **more):
    return WorkerReport(name, host, processes=processes, **more)


def running(number, since_ms):
    return RunningJob(job(number), since_ms)


def runs_of(overview):
    return {
        process.about.pid: [(one.descriptor, one.since_ms, one.is_exact) for one in process.jobs]
        for worker in overview.workers
        for process in worker.processes
    }


def test_a_claim_says_what_runs_and_a_report_says_since_when():
    processes = [WorkerProcess(41), WorkerProcess(42, jobs=[running(1, 100), running(9, 50)])]
    overview = worker_overview([report(processes=processes)], claims_by(web1_42=claimed(1, 2)))
    # Job 9 has ended since the report, and job 2 has begun.
    assert runs_of(overview) == {42: [(job(1), 100, True), (job(2), 500, False)], 41: []}
    [worker] = overview.workers
    assert (worker.busy, worker.running, overview.busy, overview.processes) == (1, 2, 1, 2)
    assert overview.others == []


def test_where_not_all_claims_were_seen_the_report_says_what_runs():
    processes = [WorkerProcess(42, jobs=[running(1, 100)])]
    overview = worker_overview([report(processes=processes)], claims_by(has_more=True))
    assert runs_of(overview) == {42: [(job(1), 100, True)]}
    assert runs_of(worker_overview([report(processes=processes)], claims_by(has_more=True), "email")) == {}


def test_claims_of_a_process_that_had_the_same_number_are_not_hidden():
    claims = claims_by(web1_42=claimed(1))
    gone = ClaimHolder("worker:web1:42:before", "web1", 42)
    claims = claims._replace(by_holder={gone: HolderClaims(gone, claimed(2)), **claims.by_holder})
    overview = worker_overview([report(processes=[WorkerProcess(42)])], claims)
    assert runs_of(overview) == {42: [(job(1), 500, False)]}
    assert [(held.holder, [one.descriptor for one in held.jobs]) for held in overview.others] == [(gone, [job(2)])]


def test_claims_of_nobody_who_reports_come_by_themselves():
    overview = worker_overview(
        [report(processes=[WorkerProcess(42)])], claims_by(web1_42=claimed(1), web2_42=claimed(2), script=claimed(3))
    )
    assert runs_of(overview) == {42: [(job(1), 500, False)]}
    assert [(held.holder.name, [one.descriptor for one in held.jobs]) for held in overview.others] == [
        ("script", [job(3)]),
        ("web2 · 42", [job(2)]),
    ]


def test_of_a_queue_there_are_those_who_serve_it_and_those_who_hold_a_job_of_it():
    processes = [WorkerProcess(41, queues=["email"]), WorkerProcess(42, queues=["pins"]), WorkerProcess(43)]
    reports = [report(processes=processes), report("b", processes=[WorkerProcess(51, queues=["email"])])]
    assert runs_of(worker_overview(reports, claims_by(web1_43=claimed(1)), "pins")).keys() == {42, 43}
    assert len(worker_overview(reports, claims_by(), "pins").workers) == 1
    assert len(worker_overview(reports, claims_by()).workers) == 2


def test_workers_stand_by_host_and_versions_are_counted():
    reports = [report("c", "web2", version="2"), report("b", "web1", version="1"), report("a", "web2", version="2")]
    overview = worker_overview(reports, claims_by())
    assert [(host.name, [worker.report.id for worker in host.workers]) for host in overview.hosts] == [
        ("web1", ["b"]),
        ("web2", ["a", "c"]),
    ]
    assert overview.versions == [("2", 2), ("1", 1)]
    overview.keep_only("c")
    assert [worker.report.id for worker in overview.workers] == ["c"]


def test_a_page_has_room_for_some_processes_of_each_worker():
    reports = [report(str(size), processes=[WorkerProcess(pid) for pid in range(1, size + 1)]) for size in (100, 3, 50)]
    overview = worker_overview(reports, claims_by())
    assert overview.fit_page(10, 61) == 0
    assert {worker.report.id: (worker.shown, worker.hidden) for worker in overview.workers} == {
        "3": (3, 0),
        "50": (29, 21),
        "100": (29, 71),
    }
    assert overview.fit_page(2, 61) == 1
    assert len(overview.workers) == 2


def test_the_run_of_a_job_is_that_of_its_holder():
    process = WorkerProcess(42, jobs=[running(1, 100)])
    reports = [report(host="web2", processes=[process]), report(host="web1", processes=[process])]
    assert run_of(reports, job(1), "web1", 42) == (100, process, "a")
    assert run_of(reports, job(1), "web1", 43) is None  # it was claimed anew since
    assert run_of(reports, job(2), "web1", 42) is None


# The pages


@pytest.fixture
def client(local_server):
    with Client(local_server.address, source="worker:web1:42:0a1b2c3d.7") as client:
        client.create_queue("pins")
        yield client


def text_of(page):
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page.text)).split())


async def no_figures():
    return ServerFigures()


def test_running_jobs_are_looked_for_where_there_may_be_some(browser, client, monkeypatch):
    def told(moment, running=None, **dequeued):
        levels = {
            STATE_GAUGES["running"]: {(queue,): 0.0 for queue in queues} | {(queue,): 1.0 for queue in running or ()}
        }
        counters = {DEQUEUED: {(queue,): count for queue, count in dequeued.items()}}
        history.add(moment, ServerFigures([ServerProcess(1, None, 1, 0, 1)], counters, levels=levels))

    def find(queue=""):
        asked.clear()
        return {
            info.queue for held in browser.portal.call(directory.find, queue).by_holder.values() for info in held.jobs
        }

    async def scan_noted(names, state, *, limit):
        asked.extend(names)
        return await scan(asked, state, limit=limit)

    queues, asked, history = ["pins", "held", "idle", "other"], [], History(no_figures)
    for queue in queues:
        client.create_queue(queue)
    client.enqueue_jobs("held", [NewJob(b"{}")])
    [held] = client.dequeue_jobs("held", 1)
    asking = browser.app.state.dashboard.client
    scan = asking.scan_fairly
    monkeypatch.setattr(asking, "scan_fairly", scan_noted)
    directory = ClaimDirectory(asking, history, FirstSeen())
    assert (find(), sorted(asked)) == ({"held"}, sorted(queues)), "nobody knows anything"
    assert (find(), sorted(asked)) == ({"held"}, sorted(queues)), "there are no metrics"
    told(0, held=1, pins=7)
    find()
    told(5, held=1, pins=7)
    assert (find(), asked) == ({"held"}, ["held"]), "it had one"
    client.enqueue_jobs("pins", [NewJob(b"{}")])
    client.dequeue_jobs("pins", 1)
    told(10, held=1, pins=8)
    assert (find(), sorted(asked)) == ({"held", "pins"}, ["held", "pins"]), "pins has handed out one since"
    client.ack("held", succeeded=[Ack(held.descriptor, held.claim)])
    assert (find(), sorted(asked)) == ({"pins"}, ["held", "pins"])
    told(15, running=["idle"], held=1, pins=8)
    assert (find(), sorted(asked)) == ({"pins"}, ["idle", "pins"]), "another server has handed out one"
    assert (find("other"), asked) == (set(), ["other"]), "it is asked for"


def test_workers_and_their_processes_are_shown(browser, client):
    client.enqueue_jobs("pins", [NewJob(b"{}", attempts=3)])
    [held] = client.dequeue_jobs("pins", 1)
    jobs = [RunningJob(held.descriptor, ago_ms(1))]
    busy = WorkerProcess(42, "pins", ["pins"], ago_ms(2), 64 << 20, 1, 1234, jobs)
    client.report_worker(report("a", version="9.1", python="3.12.1", pid=40, processes=[busy, WorkerProcess(43)]), 30)
    client.report_worker(report("b", "web2", version="9.0", pid=50, is_draining=True), 30)
    client.report_worker(report("<c>", "web2", version="9.1", pid=60), 30)
    text = text_of(browser.get("/workers"))
    assert f"42 {held.descriptor} 1 h ago 1 of 3 pins 1,234 64.0 MiB 2 h ago" in text
    assert "or earlier" not in text
    assert "43 idle" in text
    assert "Worker 40 9.1 Python 3.12.1" in text
    assert "Workers have different versions: 9.1 (2), 9.0 (1)" in text
    assert "Worker 50 draining 9.0" in text
    assert "Other clients" not in text
    one = browser.get("/workers?worker=a")
    assert "42" in text_of(one)
    assert "Worker 50" not in text_of(one)
    assert browser.get("/workers?worker=nobody").status_code == 404
    assert "Worker 50" not in text_of(browser.get("/workers?queue=pins"))
    assert "%3Cc%3E" in browser.get("/workers").text


def test_classes_that_no_worker_knows_are_named(browser, client):
    unknown = [UnknownJobs("pins", "<New>", 12, ago_ms(1)), UnknownJobs("ads", "Newer", 1, ago_ms(1))]
    client.report_worker(report("a", unknown=unknown), 30)
    text = text_of(browser.get("/workers"))
    assert (
        "No worker can read jobs of class <New> in queue pins . Workers release them without using up an attempt"
        in text
    )
    assert "12 times in the last minutes" in text
    assert "Newer" in text
    assert "Newer" not in text_of(browser.get("/workers?queue=pins"))


def test_jobs_without_a_class_are_not_called_one(browser, client):
    client.report_worker(report("a", unknown=[UnknownJobs("pins", NO_CLASS, 12, ago_ms(1))]), 30)
    text = text_of(browser.get("/workers"))
    assert "No worker can read jobs without a class in queue pins" in text
    assert "deploy a RawJob class for the queue" in text


def test_a_running_job_says_since_when_exactly_and_what_its_process_holds(browser, client):
    client.enqueue_jobs("pins", [NewJob(b"{}")])
    [held] = client.dequeue_jobs("pins", 1)
    assert "or earlier" in browser.get(f"/job?id={held.descriptor}").text
    process = WorkerProcess(42, memory_bytes=64 << 20, jobs=[RunningJob(held.descriptor, ago_ms(1))])
    client.report_worker(report(processes=[process]), 30)

    def told():
        return text_of(browser.get(f"/job?id={held.descriptor}"))

    wait_for(lambda: "Running since 1 h ago" in told(), what=told)
    assert "Process memory 64.0 MiB" in told()
    assert '<a href="/workers?worker=' in browser.get(f"/job?id={held.descriptor}").text
    assert "or earlier" not in told()


def test_a_page_of_very_many_processes_stays_bounded(browser, client):
    for number in range(30):
        processes = [WorkerProcess(number * 100 + at, queues=["pins"]) for at in range(100)]
        client.report_worker(report(str(number), f"web{number}", processes=processes), 30)
    page = browser.get("/workers")
    assert "3,000" in page.text
    assert page.text.count("idle</td>") <= 200
    assert "and 94 more processes" in page.text
    assert browser.get("/workers?worker=7").text.count("idle</td>") == 100

"""What a worker tells of itself, to whom, and how often."""

import logging
import os
import platform
import time

import pytest

from pinlater import Client, __version__
from pinlater.client.servers import ServerSet
from pinlater.errors import NoHealthyShards
from pinlater.model.workers import WorkerProcess
from pinlater.protocol.codec import Codec
from pinlater.protocol.conversion.workers import WORKER
from pinlater.server.api.worker_reports import MAX_REPORT_BYTES
from pinlater.worker.claim_table.snapshot import RUNNING, SOLO_LAYOUT, Identity, team_layout
from pinlater.worker.keeper import reporter as reporter_module
from pinlater.worker.keeper.report import build_report, pids_of
from pinlater.worker.keeper.reporter import WorkerReporter
from pinlater.worker.pools import JobPool
from pinlater.worker.shared import Shared
from tests.support.server import wait_for
from tests.unit.client.fake_server import FakeServer, free_address
from tests.unit.worker.fakes import names


def new_shared(layout=SOLO_LAYOUT):
    return Shared.for_pools([JobPool(), JobPool("jobs of web", 1, {"web": 1})], layout)


@pytest.fixture
def shared():
    return new_shared()


def register(shared, pool="jobs", *, number=0, queues=("mail",), pid=None, places=1):
    row = shared.row(pool, number)
    row.register(Identity("worker:me", list(queues), ["SendMail"], places, pid or os.getpid(), 5_000))
    return row


def hold(row, *descriptors, running=(0,), seconds=60):
    area = row.acquire_area()
    area.write("claim", descriptors)
    for position in running:
        area.states[position] = RUNNING
        area.started_ns[position] = time.monotonic_ns() - int(seconds * 1e9)
    return area


# What


def test_a_report_tells_of_the_worker_and_its_processes(shared):
    row = register(shared)
    hold(row, *names(3), running=[1])
    register(shared, "jobs of web", queues=["web"], pid=2**31 - 7, places=4)
    counters = shared.process_counters("jobs", 0)
    counters.register(["SendMail"])
    counters.count_success("mail", 0, 5)
    counters.count_ending("mail", 0, "failed", 5)
    counters.count_event("mail", "saved", 9)
    report = build_report(shared)
    assert (report.id, report.pid, report.host) == (shared.origin.id, os.getpid(), platform.node())
    assert (report.version, report.python) == (__version__, platform.python_version())
    assert 0 <= time.time() - report.started_ms / 1000 < 60
    assert not report.is_draining
    first, second = report.processes
    assert first[:4] == (os.getpid(), "jobs", ["mail"], 5_000)
    assert first.memory_bytes > 1_000_000
    assert (first.slots, first.ended) == (1, 2)
    [job] = first.jobs
    assert job.descriptor == names(3)[1]
    assert 59 < time.time() - job.since_ms / 1000 < 90
    assert second == WorkerProcess(2**31 - 7, "jobs of web", ["web"], 5_000, None, 4, 0, [])


def test_a_job_that_has_just_begun_begins_now(shared):
    area = hold(register(shared), *names(1))
    area.started_ns[0] = 0
    [job] = build_report(shared).processes[0].jobs
    assert 0 <= time.time() - job.since_ms / 1000 < 30


def test_a_process_that_is_gone_is_not_told_of(shared):
    row = register(shared)
    register(shared, number=1, pid=77)
    assert pids_of(shared) == [os.getpid(), 77]
    row.clear()
    assert pids_of(shared) == [process.pid for process in build_report(shared).processes] == [77]


def test_a_worker_that_stops_says_so(shared):
    shared.stopping.set()
    assert build_report(shared).is_draining


def test_the_sources_of_claims_have_the_worker_s_id(shared):
    one, other = shared.origin.new_source(7), shared.origin.new_source(7)
    assert one != other
    assert f":7:{shared.origin.id}" in one
    assert new_shared().origin.id != shared.origin.id


def test_a_report_is_never_larger_than_a_server_takes():
    shared = new_shared(team_layout(3000))
    rows = [register(shared, number=number, queues=[f"q{each}" * 9 for each in range(400)]) for number in range(20)]
    for number, descriptor in enumerate(names(3000, "q" * 80)):
        hold(rows[0], descriptor, seconds=number / 100)  # a machine may be up for less than 3000 s
    report = build_report(shared)
    assert len(Codec().encode_struct(WORKER.struct(report))) < MAX_REPORT_BYTES
    jobs = report.processes[0].jobs
    assert 500 < len(jobs) < 3000
    assert {job.descriptor for job in jobs} == set(names(3000, "q" * 80)[-len(jobs) :]), "those that run for longest"
    assert {len(process.queues) for process in report.processes} != {400}
    assert all(process.queues[:3] == ["q0" * 9, "q1" * 9, "q2" * 9] for process in report.processes)


# To whom, and when


class Listener(FakeServer):
    """Notes the reports that it gets."""

    def __init__(self, answer=None):
        self.reply = answer
        super().__init__(lambda call: self.reply)

    @property
    def reports(self):
        """Return the processes of each report, whether the worker drains, and for how long it is kept."""
        requests = [call.arguments.request for call in self.calls]
        return [
            ([process.pid for process in request.worker.processes], request.worker.isDraining, request.keepMillis)
            for request in requests
        ]


@pytest.fixture
def server():
    with Listener() as server:
        yield server


def reporter_of(shared, *servers):
    return WorkerReporter(ServerSet([getattr(server, "address", server) for server in servers]), shared)


def test_it_reports_at_once_and_when_processes_come_and_go(server, shared):
    with reporter_of(shared, server):
        wait_for(lambda: server.reports)
        register(shared, pid=77)
        wait_for(lambda: ([77], False, 30_000) in server.reports)
        register(shared, pid=78)
        wait_for(lambda: ([78], False, 30_000) in server.reports)
    assert server.reports[0] == ([], False, 30_000)
    assert {call.method for call in server.calls} == {"reportWorker"}
    assert len(server.connections) == 1


def test_it_reports_all_the_time(server, shared, monkeypatch):
    monkeypatch.setattr(reporter_module, "REPORT_SECONDS", 0.05)
    with reporter_of(shared, server):
        wait_for(lambda: len(server.reports) >= 4)


def test_a_worker_that_stops_is_seen_draining_and_then_no_more(server, shared):
    with reporter_of(shared, server):
        wait_for(lambda: server.reports)
        shared.stopping.set()
        wait_for(lambda: len(server.reports) > 1)
    assert server.reports[-2:] == [([], True, 30_000), ([], True, 0)]


def test_a_keeper_that_is_replaced_leaves_the_worker_listed(server, shared):
    with reporter_of(shared, server):
        wait_for(lambda: server.reports)
    assert [keep_ms for _, _, keep_ms in server.reports] == [30_000] * len(server.reports)


def test_a_keeper_that_fails_leaves_it_listed_as_well(server, shared):
    shared.stopping.set()
    with pytest.raises(ZeroDivisionError), reporter_of(shared, server):  # noqa: PT012
        wait_for(lambda: server.reports)
        raise ZeroDivisionError
    assert [keep_ms for _, _, keep_ms in server.reports] == [30_000] * len(server.reports)


def test_a_server_that_knows_no_reports_is_not_asked_again_soon(server, shared, monkeypatch, caplog):
    monkeypatch.setattr(reporter_module, "REPORT_SECONDS", 0.01)
    monkeypatch.setattr(reporter_module, "_CHECK_SECONDS", 0.01)
    server.reply = "unknown"
    caplog.set_level(logging.DEBUG)
    with reporter_of(shared, server):
        wait_for(lambda: "takes none" in caplog.text)
        register(shared, pid=77)
        shared.stopping.set()
        time.sleep(0.3)
    assert len(server.calls) == 1, "neither for news nor for the end"
    assert [record.levelname for record in caplog.records if record.name == reporter_module.__name__] == ["DEBUG"]


def test_it_asks_again_after_a_while(server, shared, monkeypatch):
    monkeypatch.setattr(reporter_module, "ASK_AGAIN_SECONDS", 0.05)
    server.reply = "unknown"
    with reporter_of(shared, server):
        wait_for(lambda: len(server.calls) >= 2)
        server.reply = None
        shared.stopping.set()
        wait_for(lambda: server.reports[-1][1])


@pytest.mark.parametrize("trouble", [NoHealthyShards("all ill"), "hang up", "silence"])
def test_trouble_passes(server, shared, monkeypatch, trouble, caplog):
    monkeypatch.setattr(reporter_module, "REPORT_SECONDS", 0.05)
    monkeypatch.setattr(reporter_module, "_CALL_SECONDS", 0.1)
    server.reply = trouble
    with reporter_of(shared, server):
        wait_for(lambda: len(server.calls) >= 2)
        server.reply = None
        known = len(server.calls)
        wait_for(lambda: len(server.calls) >= known + 2)
        shared.stopping.set()
        wait_for(lambda: server.reports[-1][1])
    assert server.reports[-1] == ([], True, 0)
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


def test_an_error_of_its_own_is_told_and_ends_nothing(server, shared, monkeypatch, caplog):
    monkeypatch.setattr(reporter_module, "ASK_AGAIN_SECONDS", 0.05)
    troubles = [ValueError("half of a process")]

    def report(*arguments):
        if troubles:
            raise troubles.pop()
        return build_report(*arguments)

    monkeypatch.setattr(reporter_module, "build_report", report)
    with reporter_of(shared, server):
        wait_for(lambda: server.reports)
    [record] = [record for record in caplog.records if record.name == reporter_module.__name__]
    assert "half of a process" in str(record.exc_info[1])


def test_another_server_will_do(server, shared):
    with reporter_of(shared, free_address(), server):
        wait_for(lambda: server.reports)


def test_a_server_that_is_cut_off_from_the_store_is_left(server, shared, monkeypatch):
    monkeypatch.setattr(reporter_module, "REPORT_SECONDS", 0.05)
    with FakeServer(lambda _: NoHealthyShards("cut off")) as cut_off:
        servers = ServerSet([cut_off.address, server.address], chance=lambda: 0.0)
        with WorkerReporter(servers, shared):
            wait_for(lambda: server.reports)


def test_without_any_server_nothing_waits_for_it(shared):
    shared.stopping.set()
    with reporter_of(shared, free_address()) as reporter:
        wait_for(lambda: reporter._due_at)
    assert not reporter._thread.is_alive()


def test_a_worker_that_was_killed_is_seen_no_longer_than_its_report_is_kept(local_server, shared):
    register(shared)
    with Client(local_server.address) as client:
        with WorkerReporter(ServerSet.parse(local_server.address), shared):
            wait_for(client.workers)
        [report] = client.workers()
        assert (report.id, report.processes[0].pid) == (shared.origin.id, os.getpid())
        local_server.advance(29)
        assert [report.id for report in client.workers()] == [shared.origin.id]
        local_server.advance(2)
        assert client.workers() == []


def test_a_report_has_the_time_of_the_worker_s_clock_and_the_memory_at_the_start(server, shared):
    register(shared)
    before_ms = int(time.time() * 1000)
    with reporter_of(shared, server):
        wait_for(lambda: server.reports)
    worker = server.calls[0].arguments.request.worker
    assert before_ms <= worker.sentAtTimestampMillis <= time.time() * 1000
    [process] = worker.processes
    assert process.memoryAtStartBytes == process.memoryBytes > 1_000_000

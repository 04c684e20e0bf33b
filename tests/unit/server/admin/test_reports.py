"""Server processes report their metrics, and the admin process sums them."""

import asyncio
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pinlater.server.admin import reports
from pinlater.server.admin.pages import MonitoringPages
from pinlater.server.admin.reporter import SUFFIX, ReportServer
from pinlater.server.admin.reports import ReportCollector, ServerStatus
from pinlater.server.metrics import Metrics
from pinlater.server.metrics.reports import decode_report, encode_report, snapshots_of, sum_reports
from pinlater.server.metrics.shard_state import ShardState
from pinlater.server.metrics.shards import MOST_SHARDS, ShardCalls
from pinlater.server.peer_processes.leader_lock import run_as_leader
from tests.support.waiting import until


def counted(jobs, connections=None):
    metrics = Metrics()
    metrics.jobs_enqueued.add("pins", jobs)
    metrics.errors.add(("enqueueJobs", "QUEUE_NOT_FOUND"), 1)
    metrics.commit_seconds.observe((), 0.001 * jobs)
    if connections is not None:
        metrics.connections.source = lambda: connections
    return metrics


def report(metrics, pid=1, shards=()):
    return decode_report(encode_report(pid, None, metrics.snapshot(), shards=shards))


def values(snapshots):
    by_name = {one.info.name: one for one in snapshots}
    commits = by_name["pinlater_commit_seconds"].series.get(())
    return {
        "enqueued": by_name["pinlater_jobs_enqueued_total"].values,
        "errors": by_name["pinlater_errors_total"].values,
        "commits": commits and (commits.count, round(commits.sum, 6), commits.minimum, commits.maximum),
        "connections": by_name["pinlater_connections"].values.get(()),
    }


def test_sums_over_processes():
    total = snapshots_of(sum_reports([report(counted(3, connections=1)), report(counted(5, connections=2))]))
    assert values(total) == {
        "enqueued": {("pins",): 8},
        "errors": {("enqueueJobs", "QUEUE_NOT_FOUND"): 2},
        "commits": (2, 0.008, 0.003, 0.005),
        "connections": 3,
    }


def test_what_all_processes_see_alike_is_not_added_up():
    ill = [Metrics(), Metrics()]
    for metrics, count in zip(ill, (2, 1), strict=True):
        metrics.unhealthy_shards.source = lambda count=count: count
    total = sum_reports([sum_reports([report(metrics) for metrics in ill]), sum_reports([])])
    assert {one.info.name: one for one in snapshots_of(total)}["pinlater_ill_shards"].values == {(): 2}


def test_a_shard_is_unhealthy_if_any_process_finds_it_so():
    first = [ShardState("2", "db2", 5000, connections=1), ShardState("10", "db10", 1000, connections=2)]
    second = [ShardState("2", "db2", 3000, error="gone", connections=0, unhealthy_in=1), ShardState("10", "db10", 2000)]
    third = [ShardState("2", "db2", 4000, error="away", connections=0, unhealthy_in=1)]
    reports = [report(Metrics(), pid, shards) for pid, shards in enumerate([first, second, third])]
    assert ServerStatus(reports, []).shards == [
        ShardState("2", "db2", 3000, error="gone", connections=1, processes=3, unhealthy_in=2),
        ShardState("10", "db10", 2000, connections=2, processes=2),
    ]
    total = {one.info.name: one for one in ServerStatus(reports, []).snapshot()}
    assert total["pinlater_shard_ill"].values == {("2",): 1.0, ("10",): 0.0}
    assert {one.info.name: one for one in ServerStatus([], reports).snapshot()}["pinlater_shard_ill"].values
    gone = [one.counts_only() for one in reports]
    assert not {one.info.name: one for one in ServerStatus([], gone).snapshot()}["pinlater_shard_ill"].values


def test_calls_are_counted_of_shards_that_there_are_and_of_so_many_only():
    metrics = Metrics()
    calls = ShardCalls(metrics)
    calls.note("1", 0.5, is_answered=True)  # of no shard that was named
    calls.follow(["1", "2"])
    calls.note("1", 0.5, is_answered=True)
    calls.note("2", 0.5, is_answered=False)
    assert [metrics.shard_call_seconds.count(name) for name in "12"] == [1, 1]
    assert [metrics.shard_failures.value(name) for name in "12"] == [0, 1]
    calls.follow(["2"])
    assert [metrics.shard_call_seconds.count(name) for name in "12"] == [0, 1]
    assert metrics.shard_failures.snapshot().values == {"2": 1}
    calls.follow(str(number) for number in range(1, MOST_SHARDS + 2))
    for number in (1, MOST_SHARDS + 1):
        calls.note(str(number), 0.5, is_answered=True)
    assert metrics.shard_call_seconds.count(str(MOST_SHARDS + 1)) == 0
    assert len(metrics.shard_failures.snapshot().values) == MOST_SHARDS


def test_of_nothing_every_family_is_there_and_empty():
    assert values(snapshots_of(sum_reports([]))) == {
        "enqueued": {},
        "errors": {},
        "commits": None,
        "connections": None,
    }


@pytest.fixture
def fork():
    """Run a reporter in a process of its own, as a server process does; killed at the end."""
    children = []

    def start(folder, metrics, reason=None):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:

            async def serve():
                reporter = ReportServer(folder, metrics, lambda: reason)
                await reporter.start()
                os.write(writer, b".")
                await asyncio.sleep(60)

            asyncio.run(serve())
            os._exit(0)
        children.append(pid)
        os.read(reader, 1)
        os.close(reader)
        os.close(writer)
        return pid

    def end(pid):
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        children.remove(pid)

    yield start, end
    for pid in list(children):
        end(pid)


def test_a_process_that_ends_while_it_reports_logs_nothing(tmp_path, monkeypatch, caplog):
    begun, goes_on = threading.Event(), threading.Event()

    def report(*_):
        begun.set()
        goes_on.wait(60)
        return b""

    async def ask_and_end():
        reporter = ReportServer(tmp_path, Metrics(), lambda: None)
        monkeypatch.setattr(reporter, "_report", report)
        await reporter.start()
        [path] = tmp_path.iterdir()
        _, writer = await asyncio.open_unix_connection(path)
        writer.write_eof()
        await asyncio.to_thread(begun.wait, 60)
        asyncio.get_running_loop().call_later(0.1, goes_on.set)  # the loop waits for its threads
        writer.close()
        await reporter.close()

    asyncio.run(ask_and_end())
    assert caplog.text == ""


def test_a_process_that_starts_while_reports_are_collected_is_found(tmp_path, monkeypatch):
    listen = socket.socket.listen

    def listen_after_a_page(listener, *backlog):
        with ThreadPoolExecutor(1) as others:
            others.submit(lambda: asyncio.run(ReportCollector(tmp_path).collect())).result()
        listen(listener, *backlog)

    async def main():
        reporter = ReportServer(tmp_path, counted(3), lambda: None)
        monkeypatch.setattr(socket.socket, "listen", listen_after_a_page)
        await reporter.start()
        status = await ReportCollector(tmp_path).collect()
        await reporter.close()
        return status

    status = asyncio.run(main())
    assert (status.reason, status.pids) == (None, [os.getpid()])
    assert list(tmp_path.iterdir()) == []


def test_counts_of_a_killed_process_stay_and_its_gauges_go(tmp_path, fork):
    start, end = fork
    first = start(tmp_path, counted(3, connections=1))
    start(tmp_path, counted(5, connections=2))

    async def main():
        reports = ReportCollector(tmp_path)
        before = await reports.collect()
        end(first)
        return before, await reports.collect(), await reports.collect()

    before, after, later = asyncio.run(main())
    assert values(before.snapshot())["connections"] == 3
    for view in (after, later):
        assert values(view.snapshot())["enqueued"] == {("pins",): 8}
        assert values(view.snapshot())["connections"] == 2
        assert len(view.pids) == 1


def test_a_process_that_ends_while_its_report_is_read_counts_once_on_each_page(tmp_path, monkeypatch):
    async def main():
        collector, path = ReportCollector(tmp_path), tmp_path / f"1{SUFFIX}"
        path.touch()
        answered = [asyncio.Event(), asyncio.Event()]
        turns = iter(answered)

        async def fetch(*_):
            await next(turns).wait()
            return report(counted(3))

        monkeypatch.setattr("pinlater.server.admin.reports._fetch_report", fetch)
        pages = [asyncio.create_task(collector.collect()) for _ in answered]
        await asyncio.sleep(0)
        path.unlink()
        for answer, page in zip(answered, pages, strict=True):
            answer.set()
            await page
        for status in (*(page.result() for page in pages), await collector.collect()):
            assert values(status.snapshot())["enqueued"] == {("pins",): 3}
            assert status.live == []

    asyncio.run(asyncio.wait_for(main(), 20))


def test_a_process_that_does_not_answer_is_left_out_once(tmp_path, fork, monkeypatch):
    fetch = reports._fetch_report

    async def fetch_impatiently(path, asked):
        monkeypatch.setattr(reports, "_ANSWER_SECONDS", 0.1 if path == deaf_path else 60.0)
        return await fetch(path, asked)

    monkeypatch.setattr(reports, "_fetch_report", fetch_impatiently)
    start, _ = fork
    start(tmp_path, counted(5))
    deaf_path = tmp_path / f"1{SUFFIX}"
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(deaf_path))
        deaf.listen()
        view = asyncio.run(ReportCollector(tmp_path).collect())
    assert len(view.pids) == 1
    assert values(view.snapshot())["enqueued"] == {("pins",): 5}


def test_half_a_report_is_none(tmp_path):
    async def main():
        data = encode_report(1, None, counted(1).snapshot())
        server = await asyncio.start_unix_server(
            lambda _, writer: (writer.write(data[:-3]), writer.close()), tmp_path / f"1{SUFFIX}"
        )
        async with server:
            return await ReportCollector(tmp_path).collect()

    assert asyncio.run(main()).pids == []


def test_ready_means_that_some_process_is(tmp_path, fork):
    start, _ = fork

    def reason():
        return asyncio.run(ReportCollector(tmp_path).collect()).reason

    assert reason() == "no server process answers"
    start(tmp_path, Metrics(), "the server is stopping")
    assert reason() == "the server is stopping"
    start(tmp_path, Metrics())
    assert reason() is None


def test_a_health_check_copies_no_metrics(tmp_path, monkeypatch):
    async def main():
        metrics = counted(3)
        reporter = ReportServer(tmp_path, metrics, lambda: "the server is stopping")
        collector = ReportCollector(tmp_path)
        await reporter.start()
        before = await collector.collect()
        monkeypatch.setattr(metrics, "snapshot", None)
        health = await MonitoringPages(collector.collect).by_path["/readyz"]()
        await reporter.close()
        return before, health, await collector.collect()

    before, health, after = asyncio.run(main())
    assert (health.status, health.body) == (503, "the server is stopping\n")
    for status in (before, after):
        assert values(status.snapshot())["enqueued"] == {("pins",): 3}


def test_an_admin_process_of_an_earlier_version_gets_its_report(tmp_path):
    async def main():
        reporter = ReportServer(tmp_path, counted(3), lambda: None)
        await reporter.start()
        [path] = tmp_path.iterdir()
        reader, writer = await asyncio.open_unix_connection(path)  # it sends nothing, and waits
        answer = await reader.read(-1)
        writer.close()
        await reporter.close()
        return answer

    assert values(snapshots_of(sum_reports([decode_report(asyncio.run(main()))])))["enqueued"] == {("pins",): 3}


def test_one_process_is_leader_and_another_takes_over(tmp_path, monkeypatch):
    monkeypatch.setattr("pinlater.server.peer_processes.leader_lock._RETRY_SECONDS", 0.01)
    on_duty = []

    async def work(name):
        on_duty.append(name)
        await asyncio.sleep(60)

    async def main():
        async with asyncio.timeout(20):
            tasks = {
                name: asyncio.create_task(run_as_leader(tmp_path / "lock", lambda n=name: work(n))) for name in "ab"
            }
            await asyncio.sleep(0.1)
            assert len(on_duty) == 1
            tasks[on_duty[0]].cancel()
            await until(lambda: len(on_duty) >= 2)
            tasks[on_duty[1]].cancel()

    asyncio.run(main())
    assert sorted(on_duty) == ["a", "b"]

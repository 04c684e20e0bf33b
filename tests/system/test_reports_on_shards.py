"""Reports of workers in a store of two Redis shards: seen while one of them is dead, hangs, or is back."""

import pytest

from pinlater.client import Client, WorkerReport
from tests.support.server import wait_for

WORKERS = {f"w{number}" for number in range(8)}
"""So many that each shard has some."""


@pytest.fixture
def server(server_of_two_shards):
    return server_of_two_shards


@pytest.fixture
def client(server):
    with Client(server.address, timeout=30) as client:
        yield client


def report_all(client, pid):
    for name in WORKERS:
        client.report_worker(WorkerReport(name, "web1", pid), 600)


def seen(client):
    return {report.id: report.pid for report in client.workers()}


@pytest.mark.parametrize("trouble", ["kill", "stop"])
def test_a_shard_that_is_away_makes_nothing_fail(server, client, two_shards, trouble):
    report_all(client, 1)
    assert seen(client) == dict.fromkeys(WORKERS, 1)
    getattr(two_shards[0], trouble)()
    report_all(client, 2)
    assert seen(client) == dict.fromkeys(WORKERS, 2)
    two_shards[0].start() if trouble == "kill" else two_shards[0].go_on()
    wait_for(lambda: "pinlater_ill_shards 0" in server.page("/metrics")[1])  # else its reports are left to expire
    assert seen(client) == dict.fromkeys(WORKERS, 2)
    report_all(client, 3)
    assert seen(client) == dict.fromkeys(WORKERS, 3)
    for name in WORKERS:
        client.report_worker(WorkerReport(name, "web1"), 0)
    assert seen(client) == {}


def test_workers_whose_connections_end_are_lost_on_any_shard(server, client):
    for name in WORKERS:
        with Client(server.address) as its_own:
            for sent_ms in (1, 2):
                its_own.report_worker(WorkerReport(name, "web1", 7, sent_ms=sent_ms), 600)
    wait_for(lambda: all(report.lost_ms for report in client.workers()), 60, client.workers)
    assert seen(client) == dict.fromkeys(WORKERS, 7)
    with Client(server.address) as its_own:
        its_own.report_worker(WorkerReport("w3", "web1", 8, sent_ms=3), 600)
        assert [report.id for report in client.workers() if not report.lost_ms] == ["w3"]

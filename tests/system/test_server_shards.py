"""A store of two Redis shards, one of which dies: what the admin port says of each."""

import re

import psutil
import pytest

from pinlater import __version__
from tests.support.redis_service import shard_file
from tests.support.server import ServerProcess, wait_for


@pytest.fixture
def server(tmp_path, two_shards):
    file = shard_file(tmp_path, two_shards, dequeue_only=[True, False])
    settings = {"PINLATER_BACKEND": "redis", "BACKEND_CONFIG": str(file), "SERVER_PROCESSES": "2"}
    server = ServerProcess(tmp_path / "server", ADMIN_PASSWORD_HASH="", DASHBOARD="true", **settings)
    yield server
    server.kill()


def rows(server):
    """Return the text of each shard's row on the page, by name."""
    page = server.page("/server")[1]
    return {
        name: re.sub(r"<[^>]*>", " ", row)
        for name, row in re.findall(r'<tr id="shard-(\w+)">(.*?)</tr>', page, re.DOTALL)
    }


def samples(server, family):
    page = server.page("/metrics")[1]
    return {name: float(value) for name, value in re.findall(rf'^{family}{{shard="(\w+)"}} (\S+)$', page, re.MULTILINE)}


def used(server):
    with server.client() as client:
        client.createQueue(name="pins")
        for _ in range(10):
            client.getJobCount(queueName="pins", jobState=0)


def test_each_shard_is_shown_and_one_that_dies_is_named(server, two_shards):
    used(server)
    places = [f"127.0.0.1:{service.port}" for service in two_shards]
    shown = rows(server)
    assert [place in shown[name] for name, place in zip("12", places, strict=True)] == [True, True]
    assert ["unhealthy" not in row for row in shown.values()] == [True, True]
    assert ["no new jobs" in row for row in shown.values()] == [True, False]
    assert samples(server, "pinlater_shard_ill") == {"1": 0, "2": 0}
    assert min(samples(server, "pinlater_shard_call_seconds_count").values()) > 0

    two_shards[1].kill()
    wait_for(lambda: used(server) or samples(server, "pinlater_shard_ill") == {"1": 0, "2": 1}, seconds=60)
    assert samples(server, "pinlater_shard_failures_total")["2"] >= 3
    page = server.page("/server")[1]
    assert "1 of 2 unhealthy" in page
    assert "unhealthy" not in rows(server)["1"]
    assert "unhealthy" in rows(server)["2"]
    assert f"shard 2 at {places[1]}" in page  # why

    two_shards[1].start()
    wait_for(lambda: samples(server, "pinlater_shard_ill") == {"1": 0, "2": 0}, seconds=60)
    assert "unhealthy" not in rows(server)["2"]


def test_each_process_of_the_server_is_shown(server):
    pids = {process.pid for process in server.children()}
    assert len(pids) == 2

    def is_whole():
        page = re.sub(r"<[^>]*>", " ", server.page("/server")[1])
        return all(re.search(rf"\b{pid} +ready +{re.escape(__version__)} .* ago +[\d.]+ MiB", page) for pid in pids)

    assert wait_for(is_whole)
    assert all(psutil.pid_exists(pid) for pid in pids)


def test_a_store_that_is_away_is_named_and_looked_at_again(server, two_shards):
    used(server)
    for service in two_shards:
        service.kill()
    wait_for(lambda: server.page("/queues/pins")[0] == 503)
    page = server.page("/queues/pins")[1]
    assert "Store unavailable" in page
    assert 'http-equiv="refresh"' in page
    assert server.page("/server")[0] == 200
    for service in two_shards:
        service.start()
    wait_for(lambda: server.page("/queues/pins")[0] == 200, seconds=60)

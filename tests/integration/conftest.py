"""One server for the tests that do not need settings of their own; each test has its own queue.

And one for each module whose tests use our own client.
"""

import itertools

import pytest

from pinlater.server.backends.mysql.connection import MysqlConnection
from tests.support.redis_bench import RedisBench
from tests.support.redis_service import RedisService
from tests.support.server import ServerProcess

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory):
    server = ServerProcess(tmp_path_factory.mktemp("server"), MAX_BODY_BYTES="100000", MAX_FRAME_BYTES="2000000")
    yield server
    assert server.process.poll() is None, server.log
    server.stop()


@pytest.fixture
def client(shared_server):
    """An independent client: the Apache Thrift runtime."""
    with shared_server.client() as client:
        yield client


@pytest.fixture
def queue(client):
    """The name of an empty queue."""
    name = f"queue_{next(_numbers)}"
    client.createQueue(name=name)
    return name


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def packets(monkeypatch):
    """A list of how many statements each packet has that is sent to MySQL."""
    sent = []
    send = MysqlConnection._send

    async def noted(self, packet, results):
        before = len(results)
        await send(self, packet, results)
        sent.append(len(results) - before)

    monkeypatch.setattr(MysqlConnection, "_send", noted)
    return sent


@pytest.fixture
def redis_bench():
    bench = RedisBench()
    yield bench
    bench.end()


@pytest.fixture
def redis_service(tmp_path):
    """A Redis server of its own."""
    with RedisService(tmp_path / "redis") as service:
        yield service

"""A Redis shard, its server, and a proxy that loses answers."""

import pytest

from pinlater.server.backends.redis import connection
from tests.support.bench import QUEUE
from tests.support.lossy_proxy import LossyProxy
from tests.support.redis_bench import RedisBench
from tests.support.redis_service import RedisService


@pytest.fixture
def bench():
    bench = RedisBench()
    yield bench
    bench.end()


@pytest.fixture
def service(tmp_path):
    service = RedisService(tmp_path / "redis")
    yield service
    service.close()


@pytest.fixture
def shard(bench, service):
    shard = bench.shard(service)
    bench.run(shard.create_queue(QUEUE))
    return shard


@pytest.fixture
def proxy(service):
    """Stands before the server, and loses answers."""
    proxy = LossyProxy(service.port)
    yield proxy
    proxy.close()


@pytest.fixture
def impatient(monkeypatch):
    """A shard that does not answer is given up sooner."""
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.3)

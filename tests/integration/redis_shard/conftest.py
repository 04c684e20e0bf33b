"""A Redis shard, its server, and a proxy that loses answers."""

from contextlib import contextmanager

import pytest

from pinlater.server.backends.redis import connection
from tests.support.bench import QUEUE
from tests.support.lossy_proxy import LossyProxy


@pytest.fixture
def bench(redis_bench):
    return redis_bench


@pytest.fixture
def service(redis_service):
    return redis_service


@pytest.fixture
def shard(bench, service):
    shard = bench.shard(service)
    bench.run(shard.create_queue(QUEUE))
    return shard


@pytest.fixture
def proxy(service):
    """Stands before the server, and loses answers."""
    with LossyProxy(service.port) as proxy:
        yield proxy


@pytest.fixture
def standing_still(service, monkeypatch):
    """Return what lets the server stand still meanwhile; its answers are given up sooner then."""

    @contextmanager
    def standing_still():
        service.stop()
        with monkeypatch.context() as patch:
            patch.setattr(connection, "ANSWER_SECONDS", 0.3)
            yield
        service.go_on()

    return standing_still

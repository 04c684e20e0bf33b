"""A real server for all tests of a module, and real workers for each."""

import pytest

from pinlater import Client
from tests.support.redis_service import RedisService, shard_file
from tests.support.server import ServerProcess
from tests.system.worker_program import Worker, add_jobs

QUEUES = ("touch", "sleeps", "holds", "fails", "counts", "steps", "forks", "overdue")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def client(server):
    with Client(server.address) as client:
        yield client


@pytest.fixture
def two_shards(tmp_path):
    """Two Redis servers, which may be killed and started again."""
    services = [RedisService(tmp_path / f"redis{number}", appendonly="yes", appendfsync="always") for number in (1, 2)]
    yield services
    for service in services:
        service.close()


@pytest.fixture
def server_of_two_shards(tmp_path, two_shards):
    """A server whose store is on both of them."""
    file = shard_file(tmp_path, two_shards)
    with ServerProcess(tmp_path / "server", PINLATER_BACKEND="redis", BACKEND_CONFIG=str(file)) as server:
        yield server


@pytest.fixture
def folder(tmp_path):
    add_jobs(tmp_path, "jobs")
    return tmp_path


@pytest.fixture
def start(folder, server, client):
    """Start workers with the queues of the module ``jobs``; end them, and remove what they left."""
    for queue in QUEUES:
        client.create_queue(queue)
    workers = []

    def start(*arguments, modules=("jobs",), env=None):
        workers.append(Worker(folder, *modules, "--server", server.address, *arguments, env=env))
        return workers[-1]

    yield start
    for worker in workers:
        worker.end()
    for queue in QUEUES:
        client.delete_queue(queue, "open sesame")

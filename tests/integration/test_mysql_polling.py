"""A dequeue that waits on one server gets what another one stores."""

import contextlib
import json
import time

import pytest

from tests.support.apache import ApacheClient
from tests.support.bench import QUEUE
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import fresh_prefix
from tests.support.server import ServerProcess


@pytest.fixture
def two_servers(tmp_path):
    service = shared_service()
    entry = {"master": {"host": service.host, "port": service.port}, "user": service.user, "passwd": service.password}
    file = tmp_path / "shards.json"
    file.write_text(json.dumps({"shard1": entry}))
    settings = {
        "PINLATER_BACKEND": "mysql", "BACKEND_CONFIG": str(file), "MYSQL_DATABASE_PREFIX": fresh_prefix(),
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        servers = []
        for name in "ab":
            servers.append(ServerProcess(tmp_path / name, **settings))
            stack.callback(servers[-1].stop)
        yield servers


def test_a_dequeue_parked_on_one_server_gets_the_job_of_another(two_servers):
    first, second = two_servers
    with ApacheClient(first.port) as waiter, ApacheClient(second.port) as producer:
        producer.createQueue(name=QUEUE)
        for number in range(5):
            waiter.send(
                "dequeueJobs",
                {"context": {"source": "w"}, "request": {"queueName": QUEUE, "limit": 1, "waitMillis": 20_000}},
            )
            time.sleep(0.1)
            [name] = producer.enqueueJobs(queueName=QUEUE, jobs=[{"body": b"%d" % number}])["jobDescriptors"]
            began = time.monotonic()
            _, answer = waiter.read("dequeueJobs")
            assert answer["jobs"] == {name: b"%d" % number}
            assert time.monotonic() - began < 10

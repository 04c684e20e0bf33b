"""``pinlater-server`` on MySQL shards: from the file of shards to jobs that are done."""

import json
import subprocess

import pytest

from pinlater import Client
from pinlater.client.address import Address
from pinlater.client.servers import ServerSet
from pinlater.errors import EXIT_CONFIG, ShardConnectionFailed
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.state import JobState
from tests.support.apache import DeclaredError
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import fresh_prefix
from tests.support.server import ServerProcess, command, environment, wait_for

QUEUE = "emails"


class Shards:
    """A file of shards, all on the server that the tests share."""

    def __init__(self, folder, prefix=None):
        self.file = folder / "mysql.local.json"
        self.settings = {
            "PINLATER_BACKEND": "mysql",
            "BACKEND_CONFIG": str(self.file),
            "MYSQL_DATABASE_PREFIX": prefix or fresh_prefix(),
        }

    def write(self, *numbers, dequeue_only=()):
        service = shared_service()
        entry = {"master": {"host": service.host, "port": service.port}, "user": service.user}
        entry["passwd"] = service.password
        shards = {f"pinlater{number:03}": {**entry, "dequeueOnly": number in dequeue_only} for number in numbers}
        self.file.write_text(json.dumps(shards))


@pytest.fixture
def shards(tmp_path):
    return Shards(tmp_path)


@pytest.fixture
def start(shards, tmp_path):
    """Starts servers, and ends those that a test leaves."""
    servers = []

    def start(**settings):
        servers.append(ServerProcess(tmp_path / f"server{len(servers)}", **shards.settings | settings))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def put(client, count=1):
    jobs = [{"body": b"%d" % number} for number in range(count)]
    return client.enqueueJobs(queueName=QUEUE, jobs=jobs)["jobDescriptors"]


def shards_of(names):
    return {JobDescriptor.parse(name).shard for name in names}


def test_jobs_come_and_go_and_outlive_the_server(shards, start):
    shards.write(1, 2)
    server = start(SERVER_PROCESSES="2", MYSQL_NUM_DB_PER_QUEUE="2")
    with server.client() as client:
        client.createQueue(name=QUEUE)
        names = [name for _ in range(40) for name in put(client)]
        assert shards_of(names) == {"1", "1d1", "2", "2d1"}
    server.kill()
    server.start()
    with server.client() as client:
        assert set(client.getQueueNames()) == {QUEUE}
        taken = {}
        while len(taken) < len(names):
            answer = client.dequeueJobs(queueName=QUEUE, limit=15)
            taken |= answer["jobs"]
            acks = [{"jobDescriptor": name} for name in answer["jobs"]]
            client.ackDequeuedJobs(queueName=QUEUE, jobsSucceeded=acks)
        assert sorted(taken) == sorted(names)
        assert client.getJobCount(queueName=QUEUE, jobState=2) == 40
        with pytest.raises(DeclaredError, match="no shard '9'"):
            client.lookupJobs(jobDescriptors=[f"{QUEUE}:s9:p1:1"])
    assert server.stop() == 0


def test_coverage_is_a_share_of_the_shards(shards, start):
    shards.write(1, 2, 3)
    server = start()
    with server.client() as client:
        client.createQueue(name=QUEUE)
        names = [name for _ in range(30) for name in put(client)]
        assert shards_of(names) == {"1", "2", "3"}
        assert not client.dequeueJobs(queueName=QUEUE, limit=100, coverage=0.1).get("jobs")
        assert len(shards_of(client.dequeueJobs(queueName=QUEUE, limit=100, coverage=0.34)["jobs"])) == 1
        assert len(shards_of(client.dequeueJobs(queueName=QUEUE, limit=100)["jobs"])) == 2


def test_shards_come_stay_and_go_while_the_server_runs(shards, start):
    shards.write(1)
    server = start()
    with server.client() as client:
        client.createQueue(name=QUEUE)
        old = put(client, 5)
        shards.write(1, 2, dequeue_only=(1,))
        wait_for(lambda: shards_of(put(client)) == {"2"})
        new = put(client)
        shards.file.write_text("{")  # a slip of the pen changes nothing
        wait_for(lambda: "is not a valid MySQL shard file" in server.log)
        assert shards_of(put(client)) == {"2"}
        taken = client.dequeueJobs(queueName=QUEUE, limit=100)["jobs"]
        assert {*old, *new} <= set(taken), "the one that takes no new jobs hands out its old ones"
        shards.write(2)
        wait_for(lambda: "shard 1 has left" in server.log)
        assert client.lookupJobs(jobDescriptors=new).keys() == set(new)
        with pytest.raises(DeclaredError, match="no shard '1'"):
            client.lookupJobs(jobDescriptors=old)
    assert server.stop() == 0


def test_a_server_knows_a_shard_as_soon_as_a_call_names_it(shards, start):
    shards.write(1)
    server = start()
    with server.client() as client:
        client.createQueue(name=QUEUE)
        for number in range(2, 6):  # between two of the server's own looks at the file
            shards.write(*range(1, number + 1))
            assert not client.lookupJobs(jobDescriptors=[f"{QUEUE}:s{number}:p1:1"])


def test_a_call_about_a_shard_that_one_server_does_not_know_yet_goes_to_another(shards, start, tmp_path):
    (tmp_path / "other").mkdir()
    behind = Shards(tmp_path / "other", shards.settings["MYSQL_DATABASE_PREFIX"])
    shards.write(1, 2, dequeue_only=(1,))
    behind.write(1)
    servers = [start(**behind.settings), start()]
    with servers[1].client() as client:
        client.createQueue(name=QUEUE)
        [job] = put(client)
    assert shards_of([job]) == {"2"}
    first = ServerSet([Address.parse(server.address) for server in servers], chance=lambda: 0.0)
    with Client(first) as client:
        assert client.lookup([job])[job].state is JobState.PENDING
        assert client.cancel_these(QUEUE, [job]) == 1
    with Client(servers[0].address, retries=0) as client, pytest.raises(ShardConnectionFailed, match="no shard '2'"):
        client.lookup([job])


@pytest.mark.parametrize(
    ("content", "words"), [("{", "is not a valid MySQL shard file"), ("{}", "names no shard"), (None, "cannot be read")]
)
def test_a_file_of_shards_that_is_wrong_ends_the_start(shards, content, words):
    if content is not None:
        shards.file.write_text(content)
    options = [option for key, value in shards.settings.items() for option in ("--set", f"{key}={value}")]
    ended = subprocess.run(
        command(*options, "--port", "0", "--admin-port", "0"),
        capture_output=True, text=True, timeout=50, env=environment(), check=False,
    )  # fmt: skip
    assert ended.returncode == EXIT_CONFIG
    assert words in ended.stderr

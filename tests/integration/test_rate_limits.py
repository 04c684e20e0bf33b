"""Rate limits: from a file, charged for what was handed out, read again when it changes."""

import json
import time

import pytest

from tests.support.apache import DeclaredError
from tests.support.server import ServerProcess, wait_for
from tests.support.stores import SHARED_STORES

LIMITED = 429


class Limits:
    """The file of limits, and a server that watches it."""

    def __init__(self, folder, settings):
        self._path = folder / "queues.json"
        self.write()
        self.server = ServerProcess(folder / "server", QUEUE_CONFIG_FILE_PATH=self._path, **settings)

    def write(self, **rates):
        rates = {"paused": 0, "ten": 10} | rates
        queues = [
            {"name": name, "queueConfig": {"maxJobsPerSecond": rate}}
            for name, rate in rates.items()
            if rate is not None
        ]
        self._path.write_text(json.dumps({"queues": queues}))


@pytest.fixture(scope="module", params=["sqlite", *SHARED_STORES])
def limits(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("limits")
    limits = Limits(folder, {} if request.param == "sqlite" else SHARED_STORES[request.param](folder))
    yield limits
    limits.server.stop()


@pytest.fixture
def client(limits):
    with limits.server.client() as client:
        for queue in ("paused", "ten", "free"):
            client.createQueue(name=queue)
            client.deleteJobs(queueName=queue, jobState=0, limit=100_000)
        yield client


def put(client, queue, count):
    return client.enqueueJobs(queueName=queue, jobs=[{"body": b"x"}] * count)["jobDescriptors"]


def take(client, queue, limit, **fields):
    return list(client.dequeueJobs(queueName=queue, limit=limit, **fields).get("jobs", {}))


def is_refused(client, queue, **fields):
    try:
        take(client, queue, 1, **fields)
    except DeclaredError as error:
        return error.code == LIMITED
    return False


def handed_out(client, queue, limit):
    """Take jobs; return how many there were, none if the limit has just been reached."""
    try:
        return len(take(client, queue, limit))
    except DeclaredError as error:
        if error.code != LIMITED:
            raise
        return 0


def drained(client):
    """Spend all that the limited queue has saved up, in one call; return a moment since which it saves up again.

    With a job a call, what it saves up during a slow call would be enough for the next one, again and again.
    """
    asked = time.monotonic()
    handed_out(client, "ten", 50)
    return asked


def test_a_queue_without_a_limit(client):
    put(client, "free", 500)
    assert len(take(client, "free", 500)) == 500


def test_a_paused_queue_refuses_dry_runs_and_waits_too(client):
    put(client, "paused", 1)
    assert is_refused(client, "paused")
    assert is_refused(client, "paused", dryRun=True)
    assert is_refused(client, "paused", waitMillis=100)
    assert client.getJobCount(queueName="paused", jobState=0) == 1


def test_acks_on_board_of_a_refused_dequeue_are_carried_out(client):
    (name,) = put(client, "free", 1)
    take(client, "free", 1)
    riding = {"queueName": "free", "jobsSucceeded": [{"jobDescriptor": name}]}
    assert is_refused(client, "paused", jobAckRequest=riding)
    assert client.lookupJobs(jobDescriptors=[name])[name]["jobState"] == 2


def test_at_most_a_second_is_saved_up_and_a_large_dequeue_gets_what_there_is(client):
    put(client, "ten", 60)
    time.sleep(1.2)
    assert 1 <= len(take(client, "ten", 50)) <= 11


def test_jobs_come_at_their_rate(client):
    put(client, "ten", 60)
    began, taken = drained(client), 0
    while taken < 5:
        taken += len(take(client, "ten", 1, waitMillis=5000))
    assert time.monotonic() - began > 0.25


def test_empty_answers_and_dry_runs_cost_nothing(client):
    time.sleep(1.2)
    for _ in range(40):
        assert take(client, "ten", 10) == []
    put(client, "ten", 5)
    for _ in range(40):
        assert len(take(client, "ten", 10, dryRun=True)) == 5
    assert len(take(client, "ten", 5)) == 5


def test_the_file_is_read_again_when_it_changes(limits, client):
    put(client, "paused", 1)
    put(client, "ten", 100)
    since = drained(client)
    limits.write(paused=None, free=0)
    try:
        wait_for(lambda: not is_refused(client, "paused", dryRun=True))
        assert len(take(client, "paused", 1)) == 1
        assert is_refused(client, "free")
        count = handed_out(client, "ten", 50)
        assert count <= 10 * (time.monotonic() - since) + 1, "an unchanged limit keeps its state"
    finally:
        limits.write()
    wait_for(lambda: is_refused(client, "paused"))


def test_a_broken_file_changes_nothing(limits, client):
    limits._path.write_text("{")
    wait_for(lambda: "queues.json" in limits.server.log)
    assert is_refused(client, "paused")
    limits.write()

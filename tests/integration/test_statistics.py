"""What happened is told by any server of a store, also after a restart."""

import time

import pytest

from pinlater import Client
from pinlater.client import Ack, NewJob, StatisticsKind
from pinlater.errors import QueueNameInvalid, UnknownError
from pinlater.model.failure_groups import failure_of
from pinlater.model.statistics import total
from tests.support.server import ServerProcess, wait_for

QUEUE = StatisticsKind.QUEUE


def last_minute_ms():
    """Return when the last full minute began: what happens early in a minute may count before it."""
    return (int(time.time()) // 60 - 1) * 60_000


def test_statistics_survive_a_restart(tmp_path):
    since_ms = last_minute_ms()
    with ServerProcess(tmp_path / "server") as server, Client(server.address, source="statistics") as client:
        client.enqueue_jobs("mail", [NewJob(b"x", attempts=1)] * 3)
        jobs = client.dequeue_jobs("mail", 3)
        acks = [Ack(job.descriptor, job.claim, "OSError: full", job="Send") for job in jobs]
        client.ack("mail", acks[:2], acks[2:])
    # It has written what was counted last when it stopped.
    with ServerProcess(tmp_path / "server") as server, Client(server.address, source="statistics") as client:
        for resolution in (60, 3600):
            for queues in (["mail"], [], [""]):
                mail = total(client.statistics(QUEUE, resolution=resolution, since_ms=since_ms, queues=queues))
                counts = (mail.enqueued, mail.started, mail.succeeded, mail.failed, mail.given_up, mail.wait.count)
                assert counts == (3, 3, 2, 1, 1, 3)
            kind = StatisticsKind.FAILURE
            failures = total(client.statistics(kind, resolution=resolution, since_ms=since_ms, queues=["mail"]))
            assert (failures.name, failures.failed) == (str(failure_of("Send", "OSError: full").group), 1)
        assert client.statistics(QUEUE, resolution=60, since_ms=since_ms, queues=["other"]) == []
        assert client.statistics(QUEUE, resolution=60, since_ms=0, until_ms=since_ms) == []


@pytest.fixture
def client(server):
    with Client(f"127.0.0.1:{server.port}", source="statistics") as client:
        yield client


def test_a_server_writes_while_it_runs(client):
    client.enqueue_jobs("live", [NewJob(b"x")])
    since_ms = last_minute_ms()
    wait_for(lambda: client.statistics(QUEUE, resolution=60, since_ms=since_ms, queues=["live"]))


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"resolution": 30, "since_ms": 0}, UnknownError),
        ({"resolution": 60, "since_ms": 0, "queues": ["a b"]}, QueueNameInvalid),
        ({"resolution": 60, "since_ms": 0, "queues": ["q"] * 1001}, UnknownError),
    ],
)
def test_questions_without_an_answer_are_refused(client, asked, error):
    with pytest.raises(error):
        client.statistics(QUEUE, **asked)


def test_a_question_about_any_time_is_answered(client):
    """Nobody would go through all the minutes of that time before the client gives up."""
    assert client.statistics(StatisticsKind.CLASS, resolution=60, since_ms=-(2**60), until_ms=2**60, name="None") == []

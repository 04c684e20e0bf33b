"""The tool goes by the clock of the store, which is two hours ahead of that of its machine here."""

import json

import pytest

from pinlater.model.attempts import Ack
from pinlater.model.jobs import NewJob
from pinlater.model.state import JobState


@pytest.fixture
def client(local_server, monkeypatch):
    monkeypatch.setenv("PINLATER_SERVERS", local_server.address)
    client = local_server.client()
    client.create_queue("email")
    client.enqueue_jobs("email", [NewJob(b"old")])
    local_server.advance(7200)
    return client


def test_how_old_a_job_is(tool_run, client):
    [new] = client.enqueue_jobs("email", [NewJob(b"new")])
    words = ("delete-jobs", "email", "--state", "pending", "--older-than", "1h", "--yes")
    assert tool_run(*words)[1] == "1 job deleted\n"
    assert [info.descriptor for info in client.scan("email", JobState.PENDING).jobs] == [new]


def test_when_a_failed_job_is_due_again(tool_run, client):
    [claimed] = client.dequeue_jobs("email", 1)
    client.ack("email", failed=[Ack(claimed.descriptor, claimed.claim, final=True)])
    assert tool_run("retry-failed", "email", "--delay", "30m")[1] == "1 job retried\n"
    [info] = client.scan("email", JobState.PENDING, future=True).jobs
    assert 1_800_000 <= info.run_after_ms - info.created_at_ms - 7_200_000 < 1_860_000


def test_how_long_a_job_has_waited(tool_run, client):
    [look] = json.loads(tool_run("top", "email", "--once", "--json")[1])
    assert 7200 <= look["wait_seconds"] < 7260

"""Load."""

import json

import pytest

from pinlater.errors import PasswordInvalid, QueueNotFound
from tests.unit.cli.answers import dequeued, enqueued


def test_load_enqueue(tool_run, server):
    server.answer = enqueued
    words = ["--num-queries", "20", "--batch-size", "5", "--concurrency", "4", "--body-size", "10", "--priority", "2"]
    status, out, _ = tool_run("load", "enqueue", "email", *words, "--json")
    assert status == 0
    figures = json.loads(out)
    assert (figures["queries"], figures["jobs"], figures["failed"]) == (20, 100, 0)
    assert 0 < figures["latency_ms_p50"] <= figures["latency_ms_p99"] <= figures["latency_ms_max"]
    assert {(len(job.body), job.priority) for call in server.calls for job in call.arguments.request.jobs} == {(10, 2)}


@pytest.mark.parametrize(("percent", "kind"), [("100", "jobsSucceeded"), ("0", "jobsFailed")])
def test_load_dequeue_acknowledges_the_share(tool_run, server, percent, kind):
    server.answer = lambda call: dequeued(b"x", b"y") if call.method == "dequeueJobs" else None
    status, out, _ = tool_run("load", "dequeue", "email", "--num-queries", "3", "--dequeue-success-percent", percent)
    assert status == 0
    assert dict(line.rsplit(maxsplit=1) for line in out.splitlines())["jobs"] == "6"
    acks = [call.arguments.request for call in server.calls if call.method == "ackDequeuedJobs"]
    assert [len(getattr(ack, kind)) for ack in acks] == [2, 2, 2]


def test_load_on_a_missing_queue_ends_at_once(tool_run, server):
    server.answer = lambda _: QueueNotFound("no queue email")
    assert tool_run("load", "enqueue", "email", "--num-queries", "-1")[0] == 1


def test_load_goes_on_after_a_failure_and_says_so(tool_run, server):
    server.answer = lambda call: PasswordInvalid("odd") if len(server.calls) == 2 else enqueued(call)
    status, out, err = tool_run("load", "enqueue", "email", "--num-queries", "5", "--json")
    assert status == 1
    assert (json.loads(out)["queries"], json.loads(out)["failed"]) == (4, 1)
    assert "a query failed: odd" in err

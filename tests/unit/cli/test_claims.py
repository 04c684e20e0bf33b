"""Jobs taken by hand."""

import json

from pinlater.protocol import messages
from tests.unit.cli.answers import dequeued, request


def test_dequeue_claims_and_says_how_to_ack(tool_run, server):
    server.answer = lambda _: dequeued(b'{"a": 1}', b"\xff\x1b[31m")
    status, out, err = tool_run("dequeue", "email", "--limit", "2", "--wait", "0.5")
    assert status == 0
    assert out.splitlines() == [
        "DESCRIPTOR     ATTEMPTS LEFT  BODY",
        'email:s1:p1:1  4 of 4         {"a": 1}',
        r"email:s1:p1:2  4 of 4         \xff\x1b[31m",
    ]
    assert "pinlater ack email DESCRIPTOR --claim 'host:1:2:src:3'" in err
    assert (request(server).limit, request(server).waitMillis) == (2, 500)


def test_dequeue_and_ack(tool_run, server):
    server.answer = lambda call: dequeued(b"x") if call.method == "dequeueJobs" else None
    assert tool_run("dequeue", "email", "--ack", "--raw") == (0, "x", "")
    assert server.methods == ["dequeueJobs", "ackDequeuedJobs"]
    assert request(server, 1).jobsSucceeded[0].claimDescriptor == "host:1:2:src:3"


def test_dequeue_as_json_keeps_all_bytes(tool_run, server):
    server.answer = lambda _: dequeued(b"text", b"\xff")
    lines = [json.loads(line) for line in tool_run("dequeue", "email", "--dry-run", "--json")[1].splitlines()]
    assert lines[0]["body"] == "text"
    assert lines[1]["body_base64"] == "/w=="
    assert request(server).dryRun is True


def test_an_empty_queue_is_1(tool_run, server):
    server.answer = lambda _: messages.PinLaterDequeueResponse()
    assert tool_run("dequeue", "email") == (1, "", "no job is due\n")


def test_ack(tool_run, server):
    assert tool_run("ack", "email", "d1", "d2", "--claim", "c")[0] == 0
    words = ["--failed", "--final", "--status", "why", "--retry-delay", "1.5"]
    assert tool_run("ack", "email", "d3", *words, "--json")[1] == '{"sent": 1}\n'
    assert [(ack.jobDescriptor, ack.claimDescriptor) for ack in request(server).jobsSucceeded] == [
        ("d1", "c"),
        ("d2", "c"),
    ]
    failed = request(server, 1).jobsFailed[0]
    assert (failed.isFinal, failed.appendCustomStatus, failed.retryDelayMillis) == (True, "why", 1500)

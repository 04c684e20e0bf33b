"""Jobs put into queues."""

import json

import pytest

from tests.unit.tool.answers import NOW_MS, enqueued, request


def test_enqueue_prints_the_descriptor(tool_run, server):
    server.answer = enqueued
    assert tool_run("enqueue", "email", "körper", "--priority", "3", "--attempts", "9", "--unique", "k")[:2] == (
        0,
        "email:s1:p1:1\n",
    )
    job = request(server).jobs[0]
    assert (job.body.decode(), job.priority, job.numAttemptsAllowed, job.uniqueKey) == ("körper", 3, 9, "k")
    assert job.runAfterTimestampMillis is None


def test_enqueue_says_how_attempts_go(tool_run, server, stdin):
    server.answer = enqueued
    options = ("--backoff", "linear:first=1,step=2", "--job-timeout", "30")
    assert tool_run("enqueue", "email", '{"job": "A"}', *options)[0] == 0
    stdin(b'{"job": "A"}\n{"job": "B"}\n')
    assert tool_run("enqueue", "email", "--json-lines", "-", *options)[0] == 0
    bodies = [json.loads(job.body) for number in (0, 1) for job in request(server, number).jobs]
    linear = {"kind": "linear", "first": 1, "step": 2, "cap": 3600, "jitter": 0}
    assert bodies == [{"job": name, "$policy": {"backoff": linear, "timeout": 30}} for name in "AAB"]


@pytest.mark.parametrize(
    "backoff",
    [
        "",
        "constant",
        "sometimes:first=1",
        "constant:seconds=x",
        "constant:seconds=-1",
        "constant:seconds=1,cap=2",
        "constant:60",
    ],
)
def test_a_backoff_that_is_none(tool_run, server, backoff):
    status, _, err = tool_run("enqueue", "email", "{}", "--backoff", backoff)
    assert status == 2
    assert "Write constant:seconds=60" in err
    assert server.calls == []


def test_a_body_without_place_for_a_backoff(tool_run, server):
    status, _, err = tool_run("enqueue", "email", "text", "--backoff", "constant:seconds=1")
    assert (status, server.calls) == (1, [])
    assert "only a body that is a JSON object" in err


def test_enqueue_a_file_byte_for_byte(tool_run, server, tmp_path):
    server.answer = enqueued
    (tmp_path / "photo").write_bytes(bytes(range(256)))
    assert tool_run("enqueue", "email", "--file", str(tmp_path / "photo"), "--delay", "60", "--json")[1] == (
        '{"descriptor": "email:s1:p1:1"}\n'
    )
    assert request(server).jobs[0].body == bytes(range(256))
    assert request(server).jobs[0].runAfterTimestampMillis > NOW_MS


def test_enqueue_lines(tool_run, server, stdin):
    server.answer = enqueued
    stdin(b'{"a": 1}\r\n\n  {"a": 2}\n' + b"3\n" * 1000)
    assert tool_run("enqueue", "email", "--json-lines", "-") == (0, "1002 jobs enqueued\n", "")
    assert [job.body for job in request(server).jobs[:3]] == [b'{"a": 1}', b'{"a": 2}', b"3"]
    assert len(server.calls) == 3


def test_a_line_that_is_no_json_is_named(tool_run, server, stdin):
    stdin(b"1\n{oops\n")
    status, _, err = tool_run("enqueue", "email", "--json-lines", "-")
    assert status == 1
    assert "line 2 is no JSON" in err

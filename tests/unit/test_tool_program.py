"""The pinlater tool: what it prints where, what it sends, and its exit statuses."""

import io
import json
import re
import subprocess
import sys

import pytest

from pinlater import __version__
from pinlater.client.tool.program import run, tool
from pinlater.errors import PasswordInvalid, QueueNotFound
from pinlater.password import verify_password
from pinlater.wire import messages
from pinlater.wire.messages import PinLaterJobInfo
from tests.unit.client_fakes import FakeServer, free_address

NOW_MS = 1_700_000_000_000


def info(descriptor="email:s1:p1:1", state=0, status="", body=None):
    return PinLaterJobInfo(descriptor, state, 4, 3, status, NOW_MS, NOW_MS, NOW_MS, None, body)


def enqueued(call):
    jobs = call.arguments.request.jobs
    return messages.PinLaterEnqueueResponse([f"email:s1:p1:{number}" for number in range(1, len(jobs) + 1)])


def dequeued(*bodies):
    names = [f"email:s1:p1:{number}" for number in range(1, len(bodies) + 1)]
    about = messages.PinLaterDequeueMetadata(4, 4, "host:1:2:src:3", NOW_MS, NOW_MS)
    return messages.PinLaterDequeueResponse(dict(zip(names, bodies, strict=True)), dict.fromkeys(names, about))


@pytest.fixture
def server(monkeypatch):
    with FakeServer(lambda _: None) as server:
        monkeypatch.setenv("PINLATER_SERVERS", str(server.address))
        yield server


@pytest.fixture
def tool_run(capsysbinary):
    """Run the tool; return exit status, stdout and stderr as text."""

    def run_it(*words):
        status = run(words)
        out, err = capsysbinary.readouterr()
        return status, out.decode(), err.decode()

    return run_it


@pytest.fixture
def stdin(monkeypatch):
    def give(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    give(b"")
    return give


@pytest.fixture
def no_password(stdin, monkeypatch):
    """Neither the environment nor a terminal has one."""
    monkeypatch.delenv("PINLATER_ADMIN_PASSWORD", raising=False)


def request(server, number=0):
    return server.calls[number].arguments.request


# Help and errors


@pytest.mark.parametrize("name", sorted(tool.commands))
def test_every_command_has_help_with_an_example(tool_run, name):
    status, out, _ = tool_run(name, "--help")
    assert status == 0
    assert f"Examples:\n  pinlater {name}" in out
    assert "..." not in tool.commands[name].get_short_help_str(60)


def test_the_version(tool_run):
    assert tool_run("--version") == (0, f"pinlater, version {__version__}\n", "")


def test_help_does_not_load_thrift():
    code = (
        "import sys; from pinlater.client.tool.program import run; run(['--help']);"
        "sys.exit(any(name.split('.')[0] in {'thriftpy2', 'tenacity', 'uvloop'} for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_no_arguments_are_help(capsys):
    from pinlater.client.tool import main

    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 0
    assert "Usage: pinlater" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["wrong"], 2, "No such command"),
        (["count"], 2, "Missing argument 'QUEUE'"),
        (["count", "email", "--state", "lost"], 2, "'lost' is no state; write pending"),
        (["count", "email", "--future", "--state", "failed"], 2, "--future is about pending jobs"),
        (["enqueue", "email"], 2, "Give the body"),
        (["enqueue", "email", "x", "--file", "-"], 2, "one of them"),
        (["enqueue", "email", "--json-lines", "-", "--unique", "k"], 2, "--unique"),
        (["enqueue", "e-mail", "x"], 2, "letters, digits and underscore"),
        (["dequeue", "email", "--ack", "--dry-run"], 2, "--ack has nothing"),
        (["ack", "email", "d", "--retry-delay", "5"], 2, "add --failed"),
        (["delete-jobs", "email", "--state", "failed"], 2, "add --yes"),
        (["delete-queue", "email"], 2, "PINLATER_ADMIN_PASSWORD"),
        (["load", "enqueue", "email", "--num-queries", "0"], 2, "--num-queries"),
        (["queues", "--server", "a:b"], 78, "write host:port"),
        (["queues", "--server", "file:/nowhere/at/all"], 78, "/nowhere/at/all"),
    ],
)
@pytest.mark.usefixtures("no_password")
def test_wrong_use_is_one_line_and_its_status(tool_run, words, status, text):
    found, out, err = tool_run(*words)
    assert (found, out) == (status, "")
    assert text in err
    assert err.startswith("pinlater: ")
    assert err.count("\n") == 1


def test_no_server_says_what_to_do(tool_run):
    address = free_address()
    status, _, err = tool_run("queues", "--server", str(address))
    assert status == 69
    assert err == (
        f"pinlater: cannot reach {address}: connection refused; is pinlater-server running? "
        "choose another with --server or PINLATER_SERVERS\n"
    )


def test_a_server_that_does_not_answer_is_69(tool_run, server):
    server.answer = lambda _: "silence"
    status, _, err = tool_run("queues", "--timeout", "0.1")
    assert status == 69
    assert "--timeout" in err


def test_something_else_than_our_server_is_69(tool_run, server):
    server.answer = lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n"
    status, _, err = tool_run("queues")
    assert status == 69
    assert "no PinLater server" in err


def test_a_refusal_is_1(tool_run, server):
    server.answer = lambda _: QueueNotFound("no queue email")
    status, _, err = tool_run("count", "email")
    assert status == 1
    assert err == "pinlater: no queue email; create it with: pinlater create-queue NAME\n"


def test_a_server_that_gives_the_hint_itself_is_not_repeated(tool_run, server):
    server.answer = lambda _: QueueNotFound("no queue email (pinlater create-queue email)")
    assert tool_run("count", "email")[2] == "pinlater: no queue email (pinlater create-queue email)\n"


def test_common_options_stand_before_or_after_the_command(tool_run, server, monkeypatch):
    server.answer = lambda _: {"email"}
    monkeypatch.delenv("PINLATER_SERVERS")
    address = str(server.address)
    assert tool_run("--server", address, "queues") == (0, "email\n", "")
    assert tool_run("queues", "--server", address, "--json") == (0, '["email"]\n', "")
    assert tool_run("--json", "queues", "--server", f"{free_address()},{address}")[:2] == (0, '["email"]\n')


# Queues


def test_create_queue(tool_run, server):
    assert tool_run("create-queue", "email") == (0, "", "")
    assert server.calls[0].arguments.name == "email"


def test_queues_are_listed_in_order(tool_run, server):
    server.answer = lambda _: {"b", "a"}
    assert tool_run("queues")[1] == "a\nb\n"


def test_delete_queue_takes_the_password_of_the_environment_or_a_file(tool_run, server, monkeypatch, tmp_path):
    monkeypatch.setenv("PINLATER_ADMIN_PASSWORD", "one")
    (tmp_path / "password").write_text("two\n")
    assert tool_run("delete-queue", "email")[0] == 0
    assert tool_run("delete-queue", "email", "--password-file", str(tmp_path / "password"))[0] == 0
    assert [call.arguments.password for call in server.calls] == ["one", "two"]


def test_a_wrong_password_is_refused(tool_run, server, monkeypatch):
    monkeypatch.setenv("PINLATER_ADMIN_PASSWORD", "one")
    server.answer = lambda _: PasswordInvalid("wrong password")
    status, _, err = tool_run("delete-queue", "email")
    assert (status, err) == (1, "pinlater: the server refused: wrong password (PASSWORD_INVALID)\n")


def test_hash_password_reads_a_pipe(tool_run, stdin):
    stdin(b"secret\n")
    status, out, _ = tool_run("hash-password")
    assert status == 0
    assert verify_password("secret", out.strip())


def test_count_shows_all_states(tool_run, server):
    def answer(call):
        asked = call.arguments.request
        return 50 if asked.countFutureJobs else asked.jobState + 1

    server.answer = answer
    expected = ["STATE        JOBS", "PENDING         1", "SCHEDULED      50", "IN_PROGRESS     2", "SUCCEEDED       3"]
    assert tool_run("count", "email")[1].splitlines() == [*expected, "FAILED          4"]
    assert json.loads(tool_run("count", "email", "--json")[1])["SCHEDULED"] == 50
    assert tool_run("count", "email", "--state", "In-Progress", "--priority", "2", "--regex", "x")[1] == "2\n"
    asked = request(server, -1)
    assert (asked.priority, asked.bodyRegexToMatch) == (2, "x")


# Jobs


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


def test_lookup_shows_one_job_field_by_field(tool_run, server):
    server.answer = lambda _: {"email:s1:p1:1": info(status="a\x1b[2Jb", body=b"hello")}
    status, out, _ = tool_run("lookup", "email:s1:p1:1", "--body")
    assert status == 0
    fields = dict(line.split(maxsplit=1) for line in out.splitlines() if not line.startswith(("attempts", "run after")))
    assert fields["state"] == "PENDING"
    assert fields["status"] == r"a\x1b[2Jb"
    assert fields["body"] == "hello"
    assert request(server).includeBody is True


def test_lookup_shows_several_as_a_table_and_names_the_missing(tool_run, server):
    server.answer = lambda _: {"a": info("a"), "c": info("c", state=3, status="why")}
    status, out, err = tool_run("lookup", "a", "b", "c")
    assert status == 1
    assert [line.split()[0] for line in out.splitlines()] == ["DESCRIPTOR", "a", "c"]
    assert out.splitlines()[2].endswith("why")
    assert err == "pinlater: there is no job b\n"


FAR = b'{"job":"Walk","$progress":{"done":1040,"total":2000,"note":"a\\u001bb"}}'


def test_lookup_shows_how_far_a_job_is(tool_run, server):
    server.answer = lambda _: {"a": info("a", state=1, body=FAR)}
    out = tool_run("lookup", "a")[1]
    assert r"progress       [##########----------] 52% (1,040 of 2,000)  a\x1bb" in out.splitlines()
    assert "Walk" not in out, "the body is shown where it is asked for"
    shown = json.loads(tool_run("lookup", "a", "--json")[1])
    assert shown["progress"] == {"done": 1040, "total": 2000, "note": "a\x1bb"}
    assert "body" not in shown
    assert json.loads(tool_run("lookup", "a", "--json", "--body")[1])["body"] == FAR.decode()


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"{}", b'{"$progress":7}', b'{"$progress":{"done":-1}}'])
def test_lookup_of_a_job_that_says_nothing_of_progress(tool_run, server, body):
    server.answer = lambda _: {"a": info("a", body=body)}
    assert "progress" not in tool_run("lookup", "a")[1]
    assert "progress" not in tool_run("lookup", "a", "--json")[1]


def test_lookup_of_a_job_that_is_done_shows_no_progress(tool_run, server):
    server.answer = lambda _: {"a": info("a", state=2, body=FAR)}
    assert "progress" not in tool_run("lookup", "a")[1]


def test_lookup_of_many_jobs_does_not_ask_for_their_bodies(tool_run, server):
    server.answer = lambda _: {"1": info("1")}
    tool_run("lookup", *map(str, range(16)))
    tool_run("lookup", *map(str, range(17)))
    assert [request(server, number).includeBody for number in (0, 1)] == [True, False]


FAILED = (
    "from the import\n"
    "[attempt 1/4 2023-11-14T22:13:20Z web1 77 0.52 s] OSError: a\x1bb\n"
    '  File "/srv/jobs.py", line 12, in run\n    send()\n'
    "[2023-11-14T22:14:20Z web1 78] crash 1: killed by SIGSEGV\n"
)


def test_lookup_shows_attempts_apart(tool_run, server):
    server.answer = lambda _: {"a": info("a", status=FAILED), "b": info("b", status=FAILED)}
    out = tool_run("lookup", "a")[1]
    fields, first, second = out.split("\n\n")
    assert "status         from the import" in fields.splitlines()
    head, *rest = first.splitlines()
    assert re.fullmatch(r"attempt 1 of 4  2023-11-1\d \S+  web1 77  ran 0\.52 s", head)
    assert rest == [r"  OSError: a\x1bb", '    File "/srv/jobs.py", line 12, in run', "      send()"]
    head, *rest = second.splitlines()
    assert re.fullmatch(r"its process ended  2023-11-1\d \S+  web1 78", head)
    assert rest == ["  crash 1: killed by SIGSEGV"]
    row = tool_run("lookup", "a", "b")[1].splitlines()[1]
    assert row.endswith("  crash 1: killed by SIGSEGV")


def test_lookup_gives_attempts_to_programs(tool_run, server):
    server.answer = lambda _: {"a": info("a", status=FAILED)}
    shown = json.loads(tool_run("lookup", "a", "--json")[1])
    assert shown["status"] == FAILED
    assert shown["failed_attempts"][0] == {
        "error": "OSError: a\x1bb",
        "traceback": '  File "/srv/jobs.py", line 12, in run\n    send()',
        "host": "web1",
        "pid": 77,
        "at_ms": NOW_MS,
        "attempt": 1,
        "attempts_allowed": 4,
        "seconds": 0.52,
    }


def test_lookup_shows_what_others_wrote_as_it_is(tool_run, server):
    server.answer = lambda _: {"a": info("a", status="[x] java.lang.Oops\n\tat Foo")}
    assert r"status         [x] java.lang.Oops\n\tat Foo" in tool_run("lookup", "a")[1].splitlines()
    assert "failed_attempts" not in tool_run("lookup", "a", "--json")[1]


def test_lookup_shows_what_the_enqueue_said_of_attempts(tool_run, server):
    body = b'{"$policy":{"backoff":{"kind":"constant","seconds":60},"timeout":30}}'
    server.answer = lambda _: {"a": info("a", body=body)}
    assert (
        "policy         backoff constant:seconds=60,jitter=0  timeout 30 s" in tool_run("lookup", "a")[1].splitlines()
    )
    shown = json.loads(tool_run("lookup", "a", "--json")[1])
    assert shown["policy"] == {"backoff": {"kind": "constant", "seconds": 60, "jitter": 0}, "timeout": 30}


def test_lookup_raw_writes_the_body_alone(server, capsysbinary):
    server.answer = lambda _: {"a": info("a", body=bytes(range(256)))}
    assert run(["lookup", "a", "--raw"]) == 0
    assert capsysbinary.readouterr().out == bytes(range(256))


def pages(call):
    asked = call.arguments.request
    start = int(asked.continuation)
    end = min(start + asked.limit, 250)
    return messages.PinLaterScanJobsResponse(
        [info(f"email:s1:p1:{number}") for number in range(start, end)], str(end) if end < 250 else "-1"
    )


def test_scan_stops_at_the_limit(tool_run, server):
    server.answer = pages
    assert len(tool_run("scan", "email")[1].splitlines()) == 101
    assert len(tool_run("scan", "email", "--limit", "7", "--state", "failed")[1].splitlines()) == 8
    assert request(server, -1).jobState == 3
    assert len(tool_run("scan", "email", "--all")[1].splitlines()) == 251


def test_scan_as_json_is_a_job_a_line(tool_run, server):
    server.answer = pages
    lines = tool_run("scan", "email", "--limit", "120", "--json")[1].splitlines()
    assert len(lines) == 120
    assert json.loads(lines[119]) | {"descriptor": "email:s1:p1:119", "state": "PENDING"} == json.loads(lines[119])


def test_retry_failed(tool_run, server):
    server.answer = lambda _: 12
    assert tool_run("retry-failed", "email", "--attempts", "3", "--limit", "50")[1] == "12 jobs retried\n"
    assert (request(server).attemptsToAllow, request(server).limit) == (3, 50)
    assert request(server).runAfterTimestampMillis is None


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("n", 1)])
def test_delete_jobs_counts_and_asks(tool_run, server, monkeypatch, answer, status):
    monkeypatch.setattr(sys, "stdin", Terminal(answer + "\n"))
    server.answer = lambda call: 5 if call.method == "getJobCount" else 10
    found, _, err = tool_run("delete-jobs", "email", "--state", "pending", "--limit", "7")
    assert found == status
    assert "Delete 7 of 10 PENDING jobs of priority 1 in email?" in err
    assert ("deleteJobs" in server.methods) is (answer == "y")


def test_delete_jobs_with_yes_does_not_ask(tool_run, server):
    server.answer = lambda _: 3
    assert tool_run("delete-jobs", "email", "--state", "failed", "--yes") == (0, "3 jobs deleted\n", "")
    assert server.methods == ["deleteJobs"]


# Load


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

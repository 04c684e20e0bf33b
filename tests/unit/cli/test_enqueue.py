"""Jobs put into queues."""

import json
import sys
import time

import pytest

from pinlater.client import JobKey
from pinlater.protocol.conversion.jobs import job_key
from tests.unit.cli.answers import NOW_MS, enqueued, request


def test_enqueue_prints_the_descriptor(tool_run, server):
    server.answer = enqueued
    assert tool_run("enqueue", "email", "körper", "--priority", "3", "--attempts", "9", "--unique", "k")[:2] == (
        0,
        "email:s1:p1:1\n",
    )
    job = request(server).jobs[0]
    assert (job.body.decode(), job.priority, job.numAttemptsAllowed, job.uniqueKey) == ("körper", 3, 9, "k")
    assert job.runAfterTimestampMillis is None


def test_enqueue_says_until_when_the_key_is_taken(tool_run, server):
    server.answer = enqueued
    assert tool_run("enqueue", "email", "body", "--unique", "k", "--unique-until", "started")[0] == 0
    assert request(server).jobs[0].uniqueUntilStarted
    assert tool_run("enqueue", "email", "body", "--unique", "k", "--unique-for", "2m")[0] == 0
    assert request(server, 1).jobs[0].uniqueForMillis == 120_000
    debounce = ("--on-duplicate", "debounce", "--max-delay", "1m")
    assert tool_run("enqueue", "email", "body", "--unique", "k", *debounce)[0] == 0
    assert (request(server, 2).jobs[0].onDuplicate, request(server, 2).jobs[0].maxDelayMillis) == (2, 60_000)
    assert "debounce alone" in tool_run("enqueue", "email", "body", "--unique", "k", *debounce[2:])[2]
    for option in (("--unique-until", "started"), ("--unique-for", "2m"), debounce[:2], debounce[2:]):
        status, _, error = tool_run("enqueue", "email", "body", *option)
        assert status == 2
        assert f"{option[0]} is about the key of --unique, which is missing" in error


def test_enqueue_says_how_attempts_go(tool_run, server, stdin):
    server.answer = enqueued
    limits = ("--job-timeout", "30", "--stall-after", "9", "--give-up-after", "99")
    options = ("--backoff", "linear:first=1,step=2", *limits)
    assert tool_run("enqueue", "email", '{"job": "A"}', *options)[0] == 0
    stdin(b'{"job": "A"}\n{"job": "B"}\n')
    assert tool_run("enqueue", "email", "--json-lines", "-", *options)[0] == 0
    bodies = [json.loads(job.body) for number in (0, 1) for job in request(server, number).jobs]
    linear = {"kind": "linear", "first": 1, "step": 2, "cap": 3600, "jitter": 0}
    policy = {"backoff": linear, "timeout": 30, "stall_after": 9, "give_up_after": 99}
    assert bodies == [{"job": name, "$policy": policy} for name in "AAB"]


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


def test_a_job_that_waits_for_longer_than_it_may_run(tool_run, server):
    status, _, err = tool_run("enqueue", "email", "{}", "--delay", "60", "--give-up-after", "60")
    assert status == 2
    assert "--give-up-after must be longer than --delay" in err
    assert server.calls == []


def test_a_body_without_place_for_a_backoff(tool_run, server):
    status, _, err = tool_run("enqueue", "email", "text", "--backoff", "constant:seconds=1")
    assert (status, server.calls) == (1, [])
    assert "needs a body that is a JSON object" in err


def test_enqueue_a_file_byte_for_byte(tool_run, server, tmp_path):
    server.answer = enqueued
    (tmp_path / "photo").write_bytes(bytes(range(256)))
    assert tool_run("enqueue", "email", "--file", str(tmp_path / "photo"), "--delay", "60", "--json")[1] == (
        '{"descriptor": "email:s1:p1:1"}\n'
    )
    assert request(server).jobs[0].body == bytes(range(256))
    assert request(server).jobs[0].runAfterTimestampMillis > NOW_MS


def test_a_delay_may_have_a_unit(tool_run, server):
    server.answer = enqueued
    before_ms = time.time() * 1000
    assert tool_run("enqueue", "email", "text", "--delay", "1d12h")[0] == 0
    delay_ms = request(server).jobs[0].runAfterTimestampMillis - before_ms
    assert 129_600_000 <= delay_ms < 2 * 129_600_000
    status, _, err = tool_run("enqueue", "email", "text", "--delay", "5x")
    assert (status, "'5x' is not a duration; write 90s" in err) == (2, True)


def test_enqueue_lines(tool_run, server, stdin):
    server.answer = enqueued
    stdin(b'{"a": 1}\r\n\n  {"a": 2}\n' + b"3\n" * 1000)
    assert tool_run("enqueue", "email", "--json-lines", "-") == (0, "1002 jobs enqueued\n", "")
    assert [job.body for job in request(server).jobs[:3]] == [b'{"a": 1}', b'{"a": 2}', b"3"]
    assert len(server.calls) == 3


@pytest.mark.parametrize(("lines", "said"), [(1, "1 job was"), (1234, "1234 jobs were")])
def test_a_line_that_is_no_json_is_named_and_those_before_it_are_stored(tool_run, server, stdin, lines, said):
    server.answer = enqueued
    stdin(b"1\n" * lines + b"{oops\n2\n")
    status, out, err = tool_run("enqueue", "email", "--json-lines", "-")
    assert (status, out) == (1, "")
    assert f"line {lines + 1} is not JSON" in err
    assert err.endswith(f"; {said} stored before\n")
    assert sum(len(call.arguments.request.jobs) for call in server.calls) == lines


@pytest.fixture
def app(tmp_path):
    """A module with job classes, as an argument."""
    file = tmp_path / "letters.py"
    file.write_text(
        "from pinlater import Job, RawJob\n"
        "class SendLetter(Job, queue='letters', attempts=9, priority=3):\n"
        "    user: int\n"
        "    locale: str = 'en'\n"
        "    def run(self, context): ...\n"
        "class Scan(RawJob, queue='scans', attempts=2):\n"
        "    def run(self, context): ...\n"
    )
    yield str(file)
    sys.modules.pop("letters", None)


LETTER = b'{"job": "SendLetter",  "user": 42}'


def test_with_its_class_a_job_takes_its_options_and_its_body_stays_as_it_is(tool_run, server, app):
    server.answer = enqueued
    assert tool_run("enqueue", "--app", app, LETTER.decode())[0] == 0
    assert tool_run("enqueue", "--app", app, "other", LETTER.decode(), "--priority", "1", "--attempts", "2")[0] == 0
    assert tool_run("enqueue", "--app", app, "scans", "any bytes")[0] == 0
    sent = [(request(server, number).queueName, request(server, number).jobs[0]) for number in range(3)]
    assert [(queue, job.body, job.priority, job.numAttemptsAllowed) for queue, job in sent] == [
        ("letters", LETTER, 3, 9),
        ("other", LETTER, 1, 2),
        ("scans", b"any bytes", 1, 2),
    ]


def test_lines_go_to_the_queues_of_their_classes(tool_run, server, app, stdin):
    server.answer = enqueued
    stdin(LETTER + b"\n" + LETTER + b"\n")
    assert tool_run("enqueue", "--app", app, "--json-lines", "-", "--backoff", "constant:seconds=5")[0] == 0
    assert (request(server).queueName, len(request(server).jobs)) == ("letters", 2)
    assert json.loads(request(server).jobs[1].body)["$policy"]["backoff"]["seconds"] == 5


def test_a_body_that_is_not_json_is_told_so(tool_run, server, app):
    status, _, err = tool_run("enqueue", "--app", app, "{'job': 'Scan'}")
    assert (status, server.calls) == (1, [])
    assert "the body is not a JSON object (JSON is malformed: " in err
    assert 'write one that names its class, such as {"job": "Scan"}; the classes are Scan, SendLetter' in err


@pytest.mark.parametrize("queue", [[], ["letters"]])
def test_the_name_of_a_class_is_no_body(tool_run, server, app, queue):
    status, _, err = tool_run("enqueue", "--app", app, *queue, "SendLetter")
    assert (status, server.calls) == (1, [])
    assert 'write one that names its class, such as {"job": "SendLetter"}; the classes are Scan, SendLetter' in err


@pytest.mark.parametrize(
    "case",
    [
        ("{}", 'the body must name its class, such as {"job": "Scan"}; the classes are Scan, SendLetter'),
        ('{"job": "SendMail"}', "no job class is named 'SendMail' here (known: Scan, SendLetter)"),
        ('{"job": "SendLetter"}', "missing required field `user`"),
        ('{"job": "SendLetter", "user": "x"}', "Expected `int`"),
        ('{"job": "SendLetter", "user": 1, "local": "de"}', "no field local; its fields are user, locale"),
    ],
)
def test_a_body_that_does_not_fit_is_not_sent(tool_run, server, app, stdin, case):
    body, text = case
    status, _, err = tool_run("enqueue", "--app", app, body)
    assert (status, server.calls) == (1, [])
    assert text in err
    stdin(b"\n" + body.encode() + b"\n")
    status, _, err = tool_run("enqueue", "--app", app, "--json-lines", "-")
    assert (status, server.calls) == (1, [])
    assert err.startswith("pinlater: line 2: ")


def test_a_module_that_cannot_be_loaded_is_wrong_configuration(tool_run, server):
    status, _, err = tool_run("enqueue", "--app", "no_such_module", "{}")
    assert (status, server.calls) == (78, [])
    assert "cannot load no_such_module" in err


def test_without_a_class_the_queue_has_to_be_named(tool_run, server):
    status, _, err = tool_run("enqueue", "--file", "-")
    assert (status, server.calls) == (2, [])
    assert "Missing argument 'QUEUE'" in err


def key_sent(server, number):
    return job_key(request(server, number).jobs[0])


def test_enqueue_sends_the_key_that_jobs_share(tool_run, server, stdin):
    server.answer = enqueued
    assert tool_run("enqueue", "email", "body", "--key", "ada")[0] == 0
    assert tool_run("enqueue", "email", "body", "--key", "ada", "--running-per-key", "3")[0] == 0
    assert tool_run("enqueue", "email", "body", "--key", "ada", "--in-order", "--running-per-key", "1")[0] == 0
    stdin(b"1\n2\n")
    assert tool_run("enqueue", "email", "--json-lines", "-", "--key", "ada", "--in-order")[0] == 0
    assert tool_run("enqueue", "email", "body", "--key", "ada", "--rate-per-key", "10/s")[0] == 0
    ordered, rated = JobKey("ada", 1, is_ordered=True), JobKey("ada", rate="10/s")
    sent = [key_sent(server, number) for number in range(5)]
    assert sent == [JobKey("ada"), JobKey("ada", 3), ordered, ordered, rated]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--in-order",), "--in-order is about the key of --key, which is missing"),
        (("--rate-per-key", "10/s"), "--rate-per-key is about the key of --key, which is missing"),
        (("--rate-per-key", "10", "--key", "ada"), "'10' is no rate; write 10/s, 100/m, 1000/h or 5/d"),
        (("--running-per-key", "2"), "--running-per-key is about the key of --key, which is missing"),
        (("--running-per-key", "2", "--in-order", "--key", "ada"), "leave out --running-per-key"),
        (("--running-per-key", "0", "--key", "ada"), "0 is not in the range x>=1"),
    ],
)
def test_enqueue_refuses_a_key_that_cannot_be(tool_run, server, options, complaint):
    status, _, error = tool_run("enqueue", "email", "body", *options)
    assert (status, server.calls) == (2, [])
    assert complaint in " ".join(error.split())


def test_with_its_class_a_job_has_its_key(tool_run, server, tmp_path):
    (tmp_path / "keyed.py").write_text(
        "from pinlater import Job\n"
        "class Import(Job, key='customer', running_per_key=2):\n"
        "    customer: str | None\n"
        "    def run(self, context): ...\n"
    )
    server.answer = enqueued
    app, body = str(tmp_path / "keyed.py"), '{"job": "Import", "customer": "ada"}'
    assert tool_run("enqueue", "--app", app, body)[0] == 0
    assert tool_run("enqueue", "--app", app, body, "--in-order")[0] == 0
    assert tool_run("enqueue", "--app", app, body, "--key", "bob")[0] == 0
    assert tool_run("enqueue", "--app", app, body.replace('"ada"', "null"))[0] == 0
    sys.modules.pop("keyed", None)
    assert [key_sent(server, number) for number in range(4)] == [
        JobKey("ada", 2),
        JobKey("ada", 1, is_ordered=True),
        JobKey("bob", 2),
        None,
    ]


def test_lines_of_a_file_from_windows(tool_run, server, stdin):
    server.answer = enqueued
    stdin(b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": 2}\r\n')
    assert tool_run("enqueue", "email", "--json-lines", "-") == (0, "2 jobs enqueued\n", "")
    assert [job.body for job in request(server).jobs] == [b'{"a": 1}', b'{"a": 2}']


@pytest.mark.parametrize("body", ["Greet", "my_jobs.Greet"])
def test_a_class_name_alone_is_stored_as_it_is_with_a_note(tool_run, server, body):
    server.answer = enqueued
    status, out, err = tool_run("enqueue", "greetings", body)
    assert (status, out) == (0, "email:s1:p1:1\n")
    assert "the text was stored as it is, for a RawJob class: a job of class Greet is JSON" in err
    assert """pinlater enqueue greetings '{"job": "Greet"}'""" in err
    assert request(server).jobs[0].body == body.encode()


@pytest.mark.parametrize("body", ["{'job': 'Greet'}", '{"job": "Greet"', " {job: Greet}"])
def test_a_body_that_was_to_be_json_is_stored_as_it_is_with_a_note(tool_run, server, body):
    server.answer = enqueued
    status, out, err = tool_run("enqueue", "greetings", body)
    assert (status, out) == (0, "email:s1:p1:1\n")
    assert "for a RawJob class: it is not JSON, as a job of a class is: Expecting" in err
    assert request(server).jobs[0].body == body.encode()


def test_a_json_object_that_names_no_class_is_stored_as_it_is_with_a_note(tool_run, server):
    server.answer = enqueued
    status, out, err = tool_run("enqueue", "greetings", '{"name": "Ada"}')
    assert (status, out) == (0, "email:s1:p1:1\n")
    assert """a job of a class names it: pinlater enqueue greetings '{"job": "CLASS", …}'""" in err
    assert request(server).jobs[0].body == b'{"name": "Ada"}'


@pytest.mark.parametrize("body", ['{"job": "Greet"}', '["a"]', "hello", "Hello, you", "3", ""])
def test_other_bodies_are_stored_without_a_note(tool_run, server, body):
    server.answer = enqueued
    assert tool_run("enqueue", "greetings", body) == (0, "email:s1:p1:1\n", "")

"""Jobs looked up and listed."""

import json
import re
import sys

import pytest

from pinlater.cli.program import run
from pinlater.errors import UnknownError
from pinlater.jobs.waiting import ENDLESS_MS
from pinlater.model.body_patterns import class_pattern
from pinlater.protocol import messages
from pinlater.protocol.messages import PinLaterMessageWait
from tests.unit.cli.answers import NOW_MS, info, request


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
    status, out, err = tool_run("lookup", "a", "b", "c", "b")
    assert status == 1
    assert [line.split()[0] for line in out.splitlines()] == ["DESCRIPTOR", "a", "c"]
    assert out.splitlines()[2].endswith("why")
    assert err == "pinlater: there is no job b\n"


def test_lookup_asks_once_for_the_bodies_of_several(tool_run, server):
    server.answer = lambda _: {"a": info("a", body=b'{"job":"Mail","to":7}'), "b": info("b", body=b"{}")}
    rows = [line.split()[:3] for line in tool_run("lookup", "a", "b")[1].splitlines()]
    assert rows[1:] == [["a", "Mail", "to=7"], ["b", "-", "PENDING"]]
    assert server.methods == ["lookupJobs"]


FAR = b'{"job":"Walk","$progress":{"done":1040,"total":2000,"note":"a\\u001bb"}}'


def test_lookup_shows_how_far_a_job_is(tool_run, server):
    server.answer = lambda _: {"a": info("a", state=1, body=FAR)}
    out = tool_run("lookup", "a")[1]
    assert r"progress       [##########----------] 52% (1,040 of 2,000)  a\x1bb" in out.splitlines()
    assert "body  " not in out, "it is shown where it is asked for"
    shown = json.loads(tool_run("lookup", "a", "--json")[1])
    assert shown["progress"] == {"done": 1040, "total": 2000, "note": "a\x1bb"}
    assert "body" not in shown
    assert json.loads(tool_run("lookup", "a", "--json", "--body")[1])["body"] == FAR.decode()


def test_lookup_of_one_job_says_what_it_is_like_a_list(tool_run, server):
    server.answer = lambda _: {"a": info("a", body=b'{"job":"Walk\\u001b","steps":3,"$progress":{"done":1}}')}
    lines = [line.split(maxsplit=1) for line in tool_run("lookup", "a")[1].splitlines()]
    assert lines[:3] == [["descriptor", "a"], ["class", r"Walk\x1b"], ["arguments", "steps=3"]]
    server.answer = lambda _: {"a": info("a", body=b"\xff\x00")}
    lines = [line.split(maxsplit=1) for line in tool_run("lookup", "a")[1].splitlines()]
    assert lines[1] == ["arguments", "ff 00"], "a body of another program names no class"


def test_lookup_shows_what_a_job_has_published(tool_run, server):
    server.answer = lambda _: {"a": info("a", state=1, body=b'{"$published":{"stage":"packing\\u001b","boxes":[3]}}')}
    lines = [line.split(maxsplit=1) for line in tool_run("lookup", "a")[1].splitlines()]
    assert ["published", r"stage=packing\x1b, boxes=[3]"] in lines
    assert json.loads(tool_run("lookup", "a", "--json")[1])["published"] == {"stage": "packing\x1b", "boxes": [3]}


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"{}", b'{"$progress":7}', b'{"$progress":{"done":-1}}'])
def test_lookup_of_a_job_that_says_nothing_of_progress(tool_run, server, body):
    server.answer = lambda _: {"a": info("a", body=body)}
    assert "progress" not in tool_run("lookup", "a")[1]
    assert "progress" not in tool_run("lookup", "a", "--json")[1]


def test_lookup_of_a_job_that_is_done_shows_no_progress(tool_run, server):
    server.answer = lambda _: {"a": info("a", state=2, body=FAR)}
    assert "progress" not in tool_run("lookup", "a")[1]


def test_lookup_of_many_jobs_does_not_ask_for_their_bodies(tool_run, server):
    server.answer = lambda _: {"1": info("1", body=b"{}")}
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
    assert re.fullmatch(r"attempt 1 of 4  2023-11-14T22:13:20\.000Z  web1 77  ran 0\.52 s", head)
    assert rest == [r"  OSError: a\x1bb", '    File "/srv/jobs.py", line 12, in run', "      send()"]
    head, *rest = second.splitlines()
    assert re.fullmatch(r"process died  2023-11-1\S+Z  web1 78", head)
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


def scanned(answer):
    """Answer scans, and look-ups of the beginnings of the bodies."""

    def reply(call):
        if call.method != "lookupJobs":
            return answer(call)
        assert call.arguments.request.maxBodyBytes == 512
        return {name: info(name, body=b'{"job": "Mail", "to": 7}') for name in call.arguments.request.jobDescriptors}

    return reply


def test_scan_names_class_and_arguments(tool_run, server):
    server.answer = scanned(pages)
    header, row = tool_run("scan", "email", "--limit", "1")[1].splitlines()
    assert header.split()[:3] == ["DESCRIPTOR", "CLASS", "ARGUMENTS"]
    assert row.split()[:3] == ["email:s1:p1:0", "Mail", "to=7"]
    looked_up = [call for call in server.calls if call.method == "lookupJobs"]
    tool_run("scan", "email", "--limit", "1", "--json")
    assert [call for call in server.calls if call.method == "lookupJobs"] == looked_up, "JSON is as it was"


def test_scan_says_what_a_job_waits_for(tool_run, server):
    waiting = info("q:s1:p1:1")
    waiting.waitsFor = [PinLaterMessageWait("event/approval", 1)]
    server.answer = scanned(lambda _: messages.PinLaterScanJobsResponse([waiting], messages.CONTINUATION_END))
    assert "waits for event approval" in tool_run("scan", "q", "--future")[1]


def test_a_scan_that_finds_nothing_says_where_jobs_may_be(tool_run, server):
    server.answer = scanned(lambda _: messages.PinLaterScanJobsResponse([], messages.CONTINUATION_END))
    elsewhere = "; for those that are due later, add --future; for those that run or have ended, --state"
    assert tool_run("scan", "email") == (0, "", f"pinlater: no such job in queue email{elsewhere}\n")
    for words in (["--state", "failed"], ["--future"], ["--key", "ada"]):
        assert tool_run("scan", "email", *words) == (0, "", "pinlater: no such job in queue email\n")
    assert tool_run("scan", "email", "--json") == (0, "", "")


@pytest.mark.parametrize("command", [["cancel"], ["run-now"], ["retry"], ["result"], ["send", "approval"]])
def test_the_name_of_a_queue_is_no_descriptor(tool_run, server, command):
    status, _, err = tool_run(command[0], "email", *command[1:])
    assert (status, server.calls) == (2, [])
    assert "'email' is no descriptor of a job, such as email:s1:p1:42" in err


def test_an_event_that_a_job_does_not_wait_for_is_kept_with_a_note(tool_run, server):
    waiting = info("q:s1:p1:1")
    waiting.waitsFor = [PinLaterMessageWait("event/approval", 1)]
    server.answer = lambda call: {"q:s1:p1:1": waiting} if call.method == "lookupJobs" else True
    assert tool_run("send", "q:s1:p1:1", "approval", "true") == (0, "event sent\n", "")
    status, out, err = tool_run("send", "q:s1:p1:1", "aproval", "true")
    assert (status, out) == (0, "event sent\n")
    assert err == "pinlater: q:s1:p1:1 waits for event approval; aproval is kept until it waits for that\n"
    waiting.waitsFor = None
    assert tool_run("send", "q:s1:p1:1", "early")[2] == ""


def test_an_event_without_a_value_is_said_to_have_none(tool_run, server):
    server.answer = lambda call: {"q:s1:p1:1": info("q:s1:p1:1")} if call.method == "lookupJobs" else True
    no_value = "event sent, without a value: the job gets None\n"
    assert tool_run("send", "q:s1:p1:1", "approval") == (0, no_value, "")
    assert request(server, -1).payload == b"null"
    assert tool_run("send", "q:s1:p1:1", "approval", "null") == (0, "event sent\n", "")


UNDONE = "[attempt 1/5 2026-11-27T20:36:01Z web1 42 0.00 s] SagaUndone: the job gave up, and its sagas are undone: x\n"


@pytest.mark.parametrize(
    ("status", "is_noted"), [(UNDONE, True), (f"{UNDONE}not undone, and left so: 'flight'\n", False), ("", False)]
)
def test_a_retry_says_that_a_job_has_undone_its_steps(tool_run, server, status, is_noted):
    found = {"q:s1:p1:1": info("q:s1:p1:1", state=3, status=status)}
    server.answer = lambda call: found if call.method == "lookupJobs" else 1
    exit_status, out, err = tool_run("retry", "q:s1:p1:1")
    assert (exit_status, out) == (0, "1 job retried\n")
    note = "pinlater: q:s1:p1:1 has undone its steps, so it fails again unless it catches SagaUndone; enqueue a new job"
    assert err == (f"{note} instead\n" if is_noted else "")


def test_scan_stops_at_the_limit(tool_run, server):
    server.answer = scanned(pages)
    assert len(tool_run("scan", "email")[1].splitlines()) == 101
    assert len(tool_run("scan", "email", "--limit", "7", "--state", "failed")[1].splitlines()) == 8
    assert request(server, -2).jobState == 3
    assert len(tool_run("scan", "email", "--all")[1].splitlines()) == 251


def test_scan_as_json_is_a_job_a_line(tool_run, server):
    server.answer = pages
    lines = tool_run("scan", "email", "--limit", "120", "--json")[1].splitlines()
    assert len(lines) == 120
    assert json.loads(lines[119]) | {"descriptor": "email:s1:p1:119", "state": "PENDING"} == json.loads(lines[119])


def test_ids_of_failure_groups_are_texts_in_json(tool_run, server):
    """JavaScript and jq 1.6 round numbers of this size, and then name another group."""
    job, group = info("a"), 7_850_631_998_198_132_771
    job.failureGroup = group
    answers = {"lookupJobs": {"a": job}, "getFailureGroups": [messages.PinLaterFailureGroup("email", group)]}
    server.answer = lambda call: (answers | {"getQueueNames": {"email"}, "getJobCount": 0})[call.method]
    assert json.loads(tool_run("lookup", "a", "--json")[1])["failure_group"] == str(group)
    assert json.loads(tool_run("failing", "--json")[1])[0]["group"] == str(group)


def searched(call):
    """Answer a search of 600 bodies, 200 a look-up; the second finds nothing."""
    asked = call.arguments.request
    if not asked.bodyRegexToMatch:
        return messages.PinLaterScanJobsResponse([], messages.CONTINUATION_END)
    start = int(asked.continuation)
    jobs = [] if start == 200 else [info(f"email:s1:p1:{start}")]
    return messages.PinLaterScanJobsResponse(jobs, str(start + 200) if start < 400 else "-1", 200)


def test_scan_goes_on_where_a_search_of_bodies_ended(tool_run, server):
    server.answer = scanned(searched)
    lines = tool_run("scan", "email", "--regex", "x")[1].splitlines()
    assert [line.split()[0] for line in lines] == ["DESCRIPTOR", "email:s1:p1:0", "email:s1:p1:400"]


@pytest.mark.parametrize(
    ("words", "told"), [(["--error", "x", "--all"], ["looked at 100 jobs", "looked at 200 jobs"]), (["--all"], [])]
)
def test_scan_tells_on_a_terminal_how_many_jobs_it_has_looked_at(tool_run, server, monkeypatch, words, told):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    server.answer = bodies(pages)
    parts = tool_run("scan", "email", *words)[2].split("\r")
    assert [one for one in parts if one in {"looked at 100 jobs", "looked at 200 jobs"}] == told


def test_scan_lets_the_server_search_for_a_class(tool_run, server):
    def answer(call):
        return [] if call.method == "getFailureGroups" else bodies(searched)(call)

    server.answer = answer
    lines = tool_run("scan", "email", "--job", "Mail")[1].splitlines()
    assert [line.split()[0] for line in lines] == ["DESCRIPTOR", "email:s1:p1:0", "email:s1:p1:400"]
    asked = [call.arguments.request for call in server.calls if call.method == "scanJobs"]
    assert {one.bodyRegexToMatch for one in asked} == {class_pattern("Mail")}
    assert tool_run("scan", "email", "--job", "Other")[1] == "", "what the server finds is looked at"


@pytest.mark.parametrize("refusal", [UnknownError("searching bodies took longer than 2 s"), None])
def test_an_older_server_is_not_trusted_with_the_search_for_a_class(tool_run, server, refusal):
    def answer(call):
        if call.method == "getFailureGroups":
            return []
        is_search = call.method == "scanJobs" and call.arguments.request.bodyRegexToMatch
        return refusal if is_search and refusal else bodies(pages)(call)

    server.answer = answer
    assert len(tool_run("scan", "email", "--job", "Mail", "--all")[1].splitlines()) == 251


def bodies(answer):
    """Answer scans, and look-ups of bodies, all of one class."""

    def reply(call):
        if call.method != "lookupJobs":
            return answer(call)
        return {name: info(name, body=b'{"job": "Mail", "to": 7}') for name in call.arguments.request.jobDescriptors}

    return reply


def test_count_reads_what_the_server_cannot_count_in_time(tool_run, server):
    def answer(call):
        if call.method == "getJobCount":
            return UnknownError("searching bodies took longer than 2 s")
        return searched(call)

    server.answer = answer
    assert tool_run("count", "email", "--state", "pending", "--regex", "x")[1] == "2\n"


def test_scan_finds_jobs_by_key(tool_run, server):
    server.answer = scanned(lambda _: messages.PinLaterScanJobsResponse([keyed()], messages.CONTINUATION_END))
    assert len(tool_run("scan", "email", "--key", "ada \x1b")[1].splitlines()) == 2
    assert request(server, -2).key == "ada \x1b"
    status, out, err = tool_run("scan", "email", "--key", "bob")
    assert (status, out) == (69, "")
    assert "upgrade it for --key" in err
    assert tool_run("scan", "email", "--key", "bob", "--state", "failed")[0] == 2
    assert tool_run("scan", "email", "--key", "bob", "--priority", "1")[0] == 2


def keyed(max_running=None, *, in_order=None, waits=None, rate=None):
    found = info("a")
    found.key, found.maxRunningOfKey, found.keyInOrder, found.waitsForKey = "ada \x1b", max_running, in_order, waits
    found.rateOfKey = rate
    return found


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (keyed(), r"ada \x1b (in turns)"),
        (keyed(rate="10/s"), r"ada \x1b (in turns, at most 10/s)"),
        (keyed(3, rate="5/d"), r"ada \x1b (3 at once, at most 5/d)"),
        (keyed(3), r"ada \x1b (3 at once)"),
        (keyed(in_order=True), r"ada \x1b (one at a time, in order)"),
    ],
)
def test_lookup_shows_the_key_of_a_job(tool_run, server, job, text):
    server.answer = lambda _: {"a": job}
    lines = tool_run("lookup", "a")[1].splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines if line.startswith("key")] == [text]
    assert not any(line.startswith("waits") for line in lines)


def test_a_job_that_waits_without_a_limit_has_no_time(tool_run, server):
    endless = info("a")
    endless.runAfterTimestampMillis = ENDLESS_MS
    server.answer = lambda _: {"a": endless}
    assert "run after      -" in tool_run("lookup", "a")[1].splitlines()
    assert json.loads(tool_run("lookup", "a", "--json")[1])["run_after_ms"] == ENDLESS_MS


def test_what_waits_for_its_key_is_said(tool_run, server):
    server.answer = lambda _: {"a": keyed(in_order=True, waits=True), "b": info("b")}
    table = tool_run("lookup", "a", "b")[1].splitlines()
    assert r"ada \x1b (waits)" in table[1]
    shown = [json.loads(line) for line in tool_run("lookup", "a", "b", "--json")[1].splitlines()]
    ordered = {"text": "ada \x1b", "max_running": 1, "is_ordered": True, "rate": None}
    assert [job["key"] for job in shown] == [ordered, None]
    assert [job["waits_for_key"] for job in shown] == [True, False]
    server.answer = lambda _: {"a": keyed(in_order=True, waits=True)}
    assert "for its key: other jobs of the key run first" in tool_run("lookup", "a")[1]
    server.answer = scanned(lambda _: messages.PinLaterScanJobsResponse([keyed(waits=True)], messages.CONTINUATION_END))
    assert r"ada \x1b (waits)" in tool_run("scan", "email", "--future")[1]

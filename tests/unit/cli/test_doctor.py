"""``pinlater doctor``: what it says, and to whom."""

import asyncio
import json
import os
import signal
import socket
import time

import pytest

from pinlater.cli import doctor_watch, examination
from pinlater.cli.command import Session
from pinlater.cli.findings import print_findings
from pinlater.cli.metrics_page import checked_url
from pinlater.errors import NoHealthyShards
from pinlater.protocol.messages import PinLaterCancelledJobs, PinLaterQueueSettings, PinLaterScanJobsResponse
from pinlater.server.metrics import Metrics, render_prometheus
from pinlater.triage.findings import Finding, Kind, Severity
from tests.unit.client.fake_server import FakeServer

WATCH = {"admin": None, "least": Severity.WARNING, "every": 0.01, "command": (), "webhook": None}


def answers(**changed):
    """Return what a server answers that has a paused queue; each answer can be replaced."""
    waits_ms = int((time.time() - 7200) * 1000)
    found = {
        "getQueueSettings": {"email": PinLaterQueueSettings(isPaused=True), "sms": PinLaterQueueSettings()},
        "getOldestDueTimestamps": {"email": waits_ms},
        "getWorkers": [],
        "getCancelledJobs": PinLaterCancelledJobs([], int(time.time() * 1000)),
        "getStatistics": [],
        "getFailureGroups": [],
        "getJobCount": 40,
        "scanJobs": PinLaterScanJobsResponse([], None),
        **changed,
    }
    return lambda call: found[call.method]


def test_it_says_what_is_wrong_and_what_to_do(tool_run, server):
    server.answer = answers()
    status, out, err = tool_run("doctor")
    assert (status, err) == (1, "")
    lines = out.splitlines()
    assert lines[0] == "WARNING  Queue email is paused, and jobs wait"
    assert lines[1].startswith("  Queue email is paused. 40 jobs wait, the first for 2 hours; the pause may be")
    assert "    pinlater resume email" in lines
    assert max(map(len, lines)) <= 80


def test_lines_are_not_broken_within_an_option(capsys):
    for length in range(60, 80):
        advice = f"{'x' * length} --unknown-after is longer"
        print_findings([Finding(Kind.PAUSED, Severity.WARNING, "email", "Paused", "It is.", advice)])
    assert capsys.readouterr().out.count("--unknown-after") == 20


def test_of_each_kind_the_first_ones_are_printed(tool_run, server):
    names = [f"q{number}" for number in range(12)]
    settings = {name: PinLaterQueueSettings(isPaused=True) for name in names}
    server.answer = answers(getQueueSettings=settings, getOldestDueTimestamps=dict.fromkeys(names, 1))
    _, out, _ = tool_run("doctor")
    assert out.count("is paused, and jobs wait") == 5
    assert out.endswith("7 more of the kind paused; --json has them\n")
    assert len(json.loads(tool_run("doctor", "--json")[1])["findings"]) == 12


def test_exit_status_and_json_are_for_scripts(tool_run, server):
    server.answer = answers()
    status, out, _ = tool_run("doctor", "--json", "--level", "critical")
    [finding] = json.loads(out)["findings"]
    assert status == 0
    assert (finding["kind"], finding["severity"], finding["queue"]) == ("paused", "warning", "email")
    assert finding["numbers"]["jobs"] == 40


def test_nothing_is_wrong(tool_run, server):
    server.answer = answers(getOldestDueTimestamps={})
    seen = "nothing is wrong (2 queues, 0 workers)"
    unseen = "add --admin to have the store's disk and speed checked, too"
    assert tool_run("doctor") == (0, f"{seen}; {unseen}\n", "")
    assert tool_run("doctor", "sms")[0] == 0


def test_a_queue_that_is_not_there(tool_run, server):
    server.answer = answers(getQueueNames={"email"})
    status, _, err = tool_run("doctor", "emial")
    assert (status, "did you mean email?" in err) == (1, True)


def test_a_server_without_a_shard_that_answers_is_a_finding(tool_run, server):
    server.answer = lambda _: NoHealthyShards("no shard of the store answers at present")
    status, out, _ = tool_run("--timeout", "0.5", "doctor", "--level", "critical", "--json")
    [finding] = json.loads(out)["findings"]
    assert (status, finding["kind"], finding["severity"]) == (1, "server_away", "critical")
    assert "no shard of the store answers at present" in finding["sentence"]


def test_one_of_several_servers_that_is_away_is_a_finding(tool_run, server, monkeypatch):
    server.answer = answers(getOldestDueTimestamps={})
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        dead = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.delenv("PINLATER_SERVERS")
        status, out, _ = tool_run("doctor", "--server", f"{dead},{server.address}", "--json")
        [finding] = json.loads(out)["findings"]
        assert (status, finding["kind"], finding["subject"]) == (1, "one_server_away", dead)
        assert f"does not answer: {dead}: connection refused. Others do" in finding["sentence"]


def test_servers_that_hang_are_findings_and_keep_nobody_from_looking(tool_run, server, monkeypatch):
    server.answer = answers(getOldestDueTimestamps={})
    monkeypatch.delenv("PINLATER_SERVERS")
    with socket.create_server(("0.0.0.0", 0)) as hanging:  # the kernel accepts connections
        port = hanging.getsockname()[1]
        hung = [f"127.0.0.{number}:{port}" for number in range(1, 20)]  # a client begins with any of them
        servers = ",".join([*hung, str(server.address)])
        status, out, _ = tool_run("--timeout", "1", "doctor", "--server", servers, "--json")
    findings = json.loads(out)["findings"]
    assert status == 1
    assert [(finding["kind"], finding["subject"]) for finding in findings] == [
        ("one_server_away", name) for name in sorted(hung)
    ]


def test_all_of_several_servers_answer(tool_run, server, monkeypatch):
    server.answer = answers(getOldestDueTimestamps={}, getCancelledJobs="unknown")
    with FakeServer(lambda _: None) as other:
        other.answer = server.answer
        monkeypatch.setenv("PINLATER_SERVERS", f"{other.address},{server.address}")
        assert tool_run("doctor")[0] == 0
        assert {call.method for call in other.calls} & {call.method for call in server.calls} == {"getCancelledJobs"}


def test_what_an_older_server_does_not_tell_is_said(tool_run, server):
    server.answer = answers(getOldestDueTimestamps={}, getWorkers="unknown")
    status, _, err = tool_run("doctor")
    assert (status, err) == (0, "not looked at: workers\n")


@pytest.mark.parametrize(
    "words",
    [
        ("--notify", "true"),
        ("--webhook", "http://localhost"),
        ("--admin", "file:///etc/passwd"),
        ("--every", "30", "--webhook", "ftp://x"),
        ("--every", "30", "--notify", "'"),
        ("--every", "30", "--notify", ""),
    ],
)
def test_usage(tool_run, server, words):
    assert tool_run("doctor", *words)[0] == 2
    assert server.calls == []


def test_metrics_tell_of_the_store(tool_run, server, web, monkeypatch):
    monkeypatch.setattr(examination, "BETWEEN_SAMPLES_SECONDS", 0.0)
    metrics = Metrics()
    metrics.store_free_bytes.set("1", 5e6)

    def page():
        for _ in range(50):
            metrics.store_seconds.observe("enqueue", 4.0)
        return render_prometheus(metrics.snapshot())

    web.pages = {"/metrics": (page, 200), "/readyz": ("no disk\n", 503)}
    server.answer = answers(getOldestDueTimestamps={})
    status, out, err = tool_run("doctor", "--admin", web.url, "--json")
    found = {finding["kind"]: finding for finding in json.loads(out)["findings"]}
    assert (status, err) == (1, "")
    assert list(found) == ["server_not_ready", "store_full", "store_slow"]
    assert "no disk" in found["server_not_ready"]["sentence"]
    assert 3 < found["store_slow"]["numbers"]["seconds"] < 6


@pytest.mark.parametrize("page", [("<html>", 200), ("", 404), ("", 302)])
def test_metrics_that_cannot_be_read_are_no_finding(tool_run, server, web, page):
    web.pages = {"/metrics": page, "/elsewhere": ("pinlater_store_bytes 1", 200)}
    server.answer = answers(getOldestDueTimestamps={})
    status, out, err = tool_run("doctor", "--admin", web.url)
    assert (status, out[:7]) == (69, "nothing")
    assert err.startswith("not looked at: the server's metrics: ")


def test_an_admin_port_that_does_not_answer_is_no_finding_but_no_success(tool_run, server):
    server.answer = answers(getOldestDueTimestamps={})
    metrics = "the server's metrics: the address does not answer (Connection refused); is this an admin port?"
    status, out, err = tool_run("doctor", "--admin", "http://127.0.0.1:1")
    assert (status, out) == (69, "nothing is wrong in what was looked at (2 queues, 0 workers)\n")
    assert err == f"not looked at: {metrics}\n"
    server.answer = answers()
    assert tool_run("doctor", "--admin", "http://127.0.0.1:1")[0] == 1  # a finding comes first


def test_a_watch_says_once_what_it_cannot_read(server, capsys, monkeypatch):
    looks = []

    def answer(call):
        if call.method == "getQueueSettings":
            looks.append(call)
            if len(looks) > 3:
                os.kill(os.getpid(), signal.SIGTERM)
        return answers()(call)

    server.answer = answer
    monkeypatch.setattr(doctor_watch, "_REST_FACTOR", 0)
    session = Session(servers=(str(server.address),), timeout=2.0)
    asyncio.run(doctor_watch.watch(session, (), **WATCH | {"admin": "http://127.0.0.1:1"}))
    assert capsys.readouterr().err.count("not looked at: the server's metrics: ") == 1


def test_an_admin_port_that_does_not_speak_http_is_no_finding(tool_run, server, no_http):
    server.answer = answers(getOldestDueTimestamps={})
    status, out, err = tool_run("doctor", "--admin", no_http)
    assert (status, out[:7]) == (69, "nothing")
    assert (
        err
        == "not looked at: the server's metrics: /metrics has no HTTP answer (BadStatusLine); is this an admin port?\n"
    )


def test_addresses():
    assert checked_url("https://example.com/x") == "https://example.com/x"
    for url in ("example.com", "http://", "file:///x", "http://[", "http://a:x", "http://a/b c", "http://a/\n"):
        with pytest.raises(ValueError, match="must begin with http"):
            checked_url(url)


def alerts_of_watch(server, capsys, queues=(), **changed):
    """Watch until SIGTERM; return events and kinds of the alerts."""
    session = Session(servers=(str(server.address),), timeout=2.0, as_json=True)
    asyncio.run(doctor_watch.watch(session, queues, **WATCH | changed))
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [(alert["event"], alert["finding"]["kind"]) for alert in told]


def test_it_goes_on_telling_what_comes_and_goes(server, capsys, monkeypatch):
    monkeypatch.setattr(doctor_watch, "_REST_FACTOR", 0)
    looks = []

    def answer(call):
        if call.method == "getQueueSettings":
            looks.append(call)
            if len(looks) > 40:
                os.kill(os.getpid(), signal.SIGTERM)
        if 5 <= len(looks) < 25:  # each look tries several times
            return "hang up"
        return answers()(call) if len(looks) < 32 else answers(getOldestDueTimestamps={})(call)

    server.answer = answer
    assert alerts_of_watch(server, capsys) == [
        ("new", "paused"), ("new", "server_away"), ("gone", "server_away"), ("gone", "paused")
    ]  # fmt: skip


def test_alerts_name_the_servers_of_the_environment(server, web, capsys, monkeypatch):
    def answer(call):
        if web.posted:
            os.kill(os.getpid(), signal.SIGTERM)
        return answers()(call)

    server.answer = answer
    asyncio.run(doctor_watch.watch(Session(timeout=2.0), (), **WATCH | {"webhook": web.url}))
    assert [message["source"] for message in web.posted] == [str(server.address)]


def test_a_queue_that_is_deleted_has_no_findings_and_is_watched_again_later(server, capsys, monkeypatch):
    monkeypatch.setattr(doctor_watch, "_REST_FACTOR", 0)
    looks, only_sms = [], {"sms": PinLaterQueueSettings()}

    def answer(call):
        if call.method == "getQueueSettings":
            looks.append(call)
            if len(looks) > 15:
                os.kill(os.getpid(), signal.SIGTERM)
        is_there = not 3 <= len(looks) < 9
        return (answers() if is_there else answers(getQueueSettings=only_sms, getOldestDueTimestamps={}))(call)

    server.answer = answer
    told = alerts_of_watch(server, capsys, ["email", "sms"])
    assert told == [("new", "paused"), ("gone", "paused"), ("new", "paused")]


def test_findings_of_metrics_last_while_these_cannot_be_read(server, web, capsys, monkeypatch):
    monkeypatch.setattr(doctor_watch, "_REST_FACTOR", 0)
    monkeypatch.setattr(examination, "BETWEEN_SAMPLES_SECONDS", 0.0)
    metrics = Metrics()
    metrics.store_free_bytes.set("1", 5e6)
    metrics.warning_threshold.set("WARN_PAUSED_SECONDS", 1e6)
    reads = []

    def page():
        reads.append(None)
        if len(reads) > 20:
            os.kill(os.getpid(), signal.SIGTERM)
        return "<html>" if 5 <= len(reads) < 12 else render_prometheus(metrics.snapshot())

    web.pages = {"/metrics": (page, 200), "/readyz": ("ok\n", 200)}
    server.answer = answers()
    assert alerts_of_watch(server, capsys, admin=web.url) == [("new", "store_full")]

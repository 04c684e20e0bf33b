"""Delivery of alerts."""

import asyncio
import json
import sys

import pytest

from pinlater.cli import notifications
from pinlater.cli.notifications import MOST_AT_ONCE, AlertSender, chat_text
from pinlater.triage.alerts import Alert, Event
from pinlater.triage.findings import Finding, Kind, Severity

NOTE = "import json, sys; open(sys.argv[1], 'a').write(json.dumps([sys.argv[2:], json.load(sys.stdin)]) + '\\n')"


def alert(sentence="9 jobs wait.", subject="email"):
    finding = Finding(Kind.BACKLOG, Severity.WARNING, subject, f"Queue {subject} is behind", sentence, "Start workers.")
    return Alert(Event.NEW, finding)


def noted(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_command_gets_a_line_and_json(tmp_path):
    notes = tmp_path / "notes"
    sentence = "$(touch hacked); `id` \"' \x1b[31m\n"
    asyncio.run(AlertSender([sys.executable, "-c", NOTE, str(notes)], None, "db1").deliver([alert(sentence)]))
    [[arguments, message]] = noted(notes)
    assert arguments == ["warning: Queue email is behind. $(touch hacked); `id` \"' \\x1b[31m\\n Start workers."], (
        "as one argument, with nothing carried out"
    )
    assert (message["event"], message["key"], message["source"]) == ("new", "backlog email", "db1")
    assert message["finding"]["sentence"] == sentence


def test_a_webhook_gets_json_with_a_text(web):
    asyncio.run(AlertSender([], web.url, "db1").deliver([alert("<!channel> & all")]))
    [message] = web.posted
    assert message["text"] == "warning: Queue email is behind. &lt;!channel&gt; &amp; all Start workers."
    assert (message["source"], message["finding"]["queue"]) == ("db1", None)


def test_what_is_not_taken_is_tried_again(web, capsys):
    async def main():
        sender = AlertSender([], web.url, "db1")
        web.post_status = 500
        await sender.deliver([alert(), alert(subject="sms")])
        web.post_status = 200
        await sender.deliver([])
        await sender.deliver([])

    asyncio.run(main())
    assert [message["key"] for message in web.posted] == ["backlog email", "backlog email", "backlog sms"]
    err = capsys.readouterr().err
    assert err == "pinlater: the webhook did not take an alert, trying again: it answered with status 500\n"
    assert web.url not in err, "it may be a secret"


def test_a_webhook_that_does_not_speak_http_is_told_of(no_http, capsys):
    asyncio.run(AlertSender([], no_http, "db1").deliver([alert()]))
    assert "trying again: its answer is not HTTP (BadStatusLine)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "seconds", "reason"),
    [
        (["/nowhere/x"], 60.0, "No such file"),
        ([sys.executable, "-c", "raise SystemExit(3)"], 60.0, "status 3"),
        ([sys.executable, "-c", "import time; time.sleep(60)"], 0.5, "took more than 0.5 s"),
    ],
)
def test_a_command_that_fails_is_told_of(monkeypatch, capfd, command, seconds, reason):
    monkeypatch.setattr(notifications, "COMMAND_SECONDS", seconds)
    asyncio.run(AlertSender(command, None, "db1").deliver([alert()]))
    assert reason in capfd.readouterr().err


def test_a_storm_is_summed_up(web):
    asyncio.run(
        AlertSender([], web.url, "x").deliver([alert(subject=f"q{number}") for number in range(MOST_AT_ONCE + 7)])
    )
    assert len(web.posted) == MOST_AT_ONCE + 1
    assert web.posted[-1]["text"] == "7 more findings; see pinlater doctor"


def test_chat_programs_see_no_markup():
    assert chat_text("<@U1>\x07") == "&lt;@U1&gt;\\x07"

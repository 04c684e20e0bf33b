"""Queues: created, listed, counted, deleted."""

import json

from pinlater.errors import PasswordInvalid
from pinlater.model.password import verify_password
from tests.unit.cli.answers import request


def test_create_queue(tool_run, server):
    assert tool_run("create-queue", "email") == (0, "", "")
    assert server.calls[0].arguments.name == "email"


def test_queues_are_listed_in_order(tool_run, server):
    server.answer = lambda _: {"b", "a"}
    assert tool_run("queues") == (0, "a\nb\n", "")


def test_no_queue_at_all(tool_run, server):
    server.answer = lambda _: set()
    assert tool_run("queues") == (0, "", "there are no queues yet; create one: pinlater create-queue NAME\n")
    assert tool_run("queues", "--json") == (0, "[]\n", "")


def test_delete_queue_takes_the_password_of_the_environment_or_a_file(tool_run, server, monkeypatch, tmp_path):
    server.answer = lambda call: {"email"} if call.method == "getQueueNames" else None
    monkeypatch.setenv("PINLATER_ADMIN_PASSWORD", "one")
    (tmp_path / "password").write_text("two\n")
    assert tool_run("delete-queue", "email")[0] == 0
    assert tool_run("delete-queue", "email", "--password-file", str(tmp_path / "password"))[0] == 0
    deletions = [call.arguments for call in server.calls if call.method == "deleteQueue"]
    assert [deletion.password for deletion in deletions] == ["one", "two"]


def test_delete_queue_says_that_there_was_none(tool_run, server, monkeypatch):
    monkeypatch.setenv("PINLATER_ADMIN_PASSWORD", "one")
    server.answer = lambda call: {"email"} if call.method == "getQueueNames" else None
    assert tool_run("delete-queue", "emial") == (0, "", "there was no queue emial\n")


def test_a_wrong_password_is_refused(tool_run, server, monkeypatch):
    monkeypatch.setenv("PINLATER_ADMIN_PASSWORD", "one")
    server.answer = lambda call: {"email"} if call.method == "getQueueNames" else PasswordInvalid("wrong password")
    status, _, err = tool_run("delete-queue", "email")
    assert (status, err) == (1, "pinlater: the server refused: wrong password (PASSWORD_INVALID)\n")


def test_hash_password_reads_a_pipe(tool_run, stdin, monkeypatch):
    monkeypatch.setattr("pinlater.model.password._COST", (1 << 10, 8, 1))
    stdin(b"secret\n")
    status, out, _ = tool_run("hash-password")
    assert status == 0
    assert verify_password("secret", out.strip())
    stdin(b"secret\n")
    assert verify_password("secret", json.loads(tool_run("hash-password", "--json")[1])["hash"])


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


def test_the_queues_of_job_classes_are_created(tool_run, server, tmp_path):
    code = "class {}(Job, queue={!r}):\n    def run(self, context): ...\n"
    file = tmp_path / "wk_queues.py"
    file.write_text("from pinlater import Job\n" + code.format("A", "mail") + code.format("B", "sms"))
    assert tool_run("create-queues", str(file)) == (0, "mail\nsms\n", "")
    assert server.methods == ["createQueue", "createQueue"]
    assert [call.arguments.name for call in server.calls] == ["mail", "sms"]
    assert json.loads(tool_run("create-queues", str(file), "--json")[1]) == {"queues": ["mail", "sms"]}
    assert tool_run("create-queues", "no_such_module")[0] == 78

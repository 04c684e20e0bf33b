"""Queues: created, listed, counted, deleted."""

import json

import pytest

from pinlater.errors import PasswordInvalid, UnknownError
from pinlater.model.password import verify_password
from pinlater.model.queues import FOLLOWS_LOAD
from pinlater.protocol.messages import PinLaterQueueSettings
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


def counted(groups):
    """Answer as a server that groups failures, or as an older one."""

    def answer(call):
        if call.method == "getFailureGroups":
            return groups
        asked = call.arguments.request
        if asked.jobState:
            return asked.jobState + 1
        if asked.waitingForKey:
            return 20
        return {None: 100, False: 0, True: 7}[asked.retrying] + (50 if asked.countFutureJobs else 1)

    return answer


def test_count_shows_all_states(tool_run, server):
    server.answer = counted([])
    out = tool_run("count", "email")[1].splitlines()
    assert [line.split() for line in out] == [
        ["STATE", "JOBS"], ["PENDING", "1"], ["SCHEDULED", "30"], ["WAITING_FOR_KEY", "20"],
        ["RETRYING", "8"], ["IN_PROGRESS", "2"], ["SUCCEEDED", "3"], ["FAILED", "4"]
    ]  # fmt: skip
    assert json.loads(tool_run("count", "email", "--json")[1])["RETRYING"] == 8
    assert tool_run("count", "email", "--retrying")[1] == "8\n"
    assert tool_run("count", "email", "--state", "In-Progress", "--priority", "2", "--regex", "x")[1] == "2\n"
    asked = request(server, -1)
    assert (asked.priority, asked.bodyRegexToMatch) == (2, "x")
    groups = [call.arguments.request for call in server.calls if call.method == "getFailureGroups"]
    assert {asked.limit for asked in groups} == {0}, "whether the call is known, which costs the server nothing"


def test_an_older_server_counts_jobs_that_retry_among_the_others(tool_run, server):
    server.answer = counted("unknown")
    assert json.loads(tool_run("count", "email", "--json")[1]) == {
        "PENDING": 101, "SCHEDULED": 150, "IN_PROGRESS": 2, "SUCCEEDED": 3, "FAILED": 4
    }  # fmt: skip
    for command in ("count", "scan"):
        status, _, err = tool_run(command, "email", "--retrying")
        assert (status, "upgrade it for --retrying" in err) == (69, True)


@pytest.mark.parametrize("words", [("--retrying", "--future"), ("--retrying", "--state", "failed")])
def test_retrying_jobs_are_pending_whether_due_or_not(tool_run, server, words):
    server.answer = counted([])
    assert tool_run("count", "email", *words)[0] == 2
    assert tool_run("scan", "email", *words)[0] == 2


def test_the_queues_of_job_classes_are_created(tool_run, server, tmp_path):
    code = "class {}(Job, queue={!r}):\n    def run(self, context): ...\n"
    file = tmp_path / "wk_queues.py"
    file.write_text("from pinlater import Job\n" + code.format("A", "mail") + code.format("B", "sms"))
    assert tool_run("create-queues", str(file)) == (0, "mail\nsms\n", "")
    assert server.methods == ["createQueue", "createQueue"]
    assert [call.arguments.name for call in server.calls] == ["mail", "sms"]
    assert json.loads(tool_run("create-queues", str(file), "--json")[1]) == {"queues": ["mail", "sms"]}
    assert tool_run("create-queues", "no_such_module")[0] == 78
    server.answer = lambda call: UnknownError("out of order") if call.arguments.name == "sms" else None
    assert "; mail was created before" in tool_run("create-queues", str(file))[2]


@pytest.mark.parametrize(
    ("words", "refused", "said"),
    [
        (["pause", "email", "sms", "emial", "other"], "emial", "email, sms were paused before"),
        (["resume", "email", "emial"], "emial", "email was resumed before"),
        (["limit", "email", "--rate", "5"], "getQueueSettings", "email was limited before"),
        (["cancel", "q:s1:p1:1", "q:s1:p1:2", "q:s1:p1:3"], "q:s1:p1:3", "q:s1:p1:1 was cancelled before"),
        (["run-now", "q:s1:p1:1", "q:s1:p1:3"], "q:s1:p1:3", "q:s1:p1:1 was made due before"),
        (["pause", "emial", "email"], "emial", None),
    ],
)
def test_an_error_says_what_was_done_before(tool_run, server, words, refused, said):
    def answer(call):
        request = getattr(call.arguments, "request", None)
        subject = getattr(request, "queueName", call.method)
        [subject] = getattr(request, "jobDescriptors", [subject])
        return UnknownError("out of order") if subject == refused else int(subject.endswith(":1"))

    server.answer = answer
    status, out, err = tool_run(*words)
    note = f"; {said}" if said else ""
    assert (status, out, err) == (1, "", f"pinlater: the server refused: out of order (UNKNOWN){note}\n")


def settings_of(**queues):
    return lambda call: queues if call.method == "getQueueSettings" else None


@pytest.mark.parametrize(("rate", "per_second"), [("5/s", 5), ("30/m", 0.5), ("36/h", 0.01), ("0.5", 0.5), ("0", 0)])
def test_a_rate_may_be_written_like_that_of_a_key(tool_run, server, rate, per_second):
    server.answer = settings_of(email=PinLaterQueueSettings())
    assert tool_run("limit", "email", "--rate", rate)[0] == 0
    assert request(server).maxJobsPerSecond == per_second


@pytest.mark.parametrize("option", ["--rate", "--running"])
def test_a_limit_of_0_is_said_to_stop_nothing(tool_run, server, option):
    server.answer = settings_of(email=PinLaterQueueSettings())
    note = "pinlater: 0 is no limit; to hand out no more jobs: pinlater pause email\n"
    assert tool_run("limit", "email", option, "0")[2] == note
    assert tool_run("limit", "email", option, "1")[2] == ""


@pytest.mark.parametrize("rate", ["10/x", "0.5/s", "/m", "-1/s"])
def test_what_is_no_rate_is_refused_in_words(tool_run, server, rate):
    status, _, err = tool_run("limit", "email", "--rate", rate)
    assert (status, server.calls) == (2, [])
    assert f"'{rate}' is no rate; write 10/s, 100/m, 1000/h or 5/d" in err


@pytest.mark.parametrize(
    ("words", "is_noted"),
    [
        (["limit", "email", "--rate", "5"], True),
        (["pause", "email"], True),
        (["limit", "email", "--running", "5"], False),
        (["limit", "email"], False),
    ],
)
@pytest.mark.parametrize("is_from_file", [True, False])
def test_a_change_that_the_servers_file_overrides_is_told(tool_run, server, words, is_noted, is_from_file):
    server.answer = settings_of(email=PinLaterQueueSettings(maxJobsPerSecond=7.0, isFromFile=is_from_file))
    status, _, err = tool_run(*words)
    assert (status, "QUEUE_CONFIG_FILE_PATH" in err) == (0, is_noted and is_from_file)


def test_the_number_of_shards_is_set_in_words(tool_run, server):
    server.answer = settings_of(email=PinLaterQueueSettings(shards=FOLLOWS_LOAD, shardsByLoad=3, activeShards=["a"]))
    for word, shards in (("auto", FOLLOWS_LOAD), ("all", 0), ("4", 4)):
        server.calls.clear()
        status, out, _ = tool_run("limit", "email", "--shards", word)
        assert (status, request(server).shards, request(server).maxRunning) == (0, shards, None)
        header, row = out.splitlines()
        assert row[header.index("SHARDS") :].startswith("auto (3)")
    for word in ("0", "some"):
        status, _, err = tool_run("limit", "email", "--shards", word)
        assert (status, "use 1 or more, auto, or all." in err) == (2, True)
    assert tool_run("limit", "--shards", "2")[0] == 2


def test_json_names_the_shards_that_new_jobs_go_to(tool_run, server):
    server.answer = settings_of(
        email=PinLaterQueueSettings(shards=2, activeShards=["a", "b"]), old=PinLaterQueueSettings()
    )
    found = json.loads(tool_run("limit", "--json")[1])
    assert (found["email"]["shards"], found["email"]["active_shards"]) == (2, ["a", "b"])
    assert (found["old"]["shards"], found["old"]["active_shards"]) == (None, [])

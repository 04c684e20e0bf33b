"""The tool against a real server."""

import functools
import json
import signal
import subprocess
import time

import pytest

from tests.support.tool import TOOL, run_tool


@pytest.fixture
def tool(server):
    return functools.partial(run_tool, PINLATER_SERVERS=server.address, PINLATER_ADMIN_PASSWORD="open sesame")


def test_a_walk_through_all_commands(tool):
    assert tool("create-queue", "email") == (0, "", "")
    assert tool("queues")[1] == "email\n"
    descriptor = tool("enqueue", "email", '{"job": "X"}')[1].strip()
    assert tool("enqueue", "email", "--json-lines", "-", data=b"1\n2\n3\n")[1] == "3 jobs enqueued\n"
    assert tool("enqueue", "email", "later", "--delay", "600")[0] == 0
    counts = json.loads(tool("count", "email", "--json")[1])
    nothing = dict.fromkeys(("WAITING_FOR_KEY", "RETRYING", "IN_PROGRESS", "SUCCEEDED", "FAILED"), 0)
    assert counts == {"PENDING": 4, "SCHEDULED": 1, **nothing}
    job = json.loads(tool("dequeue", "email", "--json")[1])
    assert job["descriptor"] == descriptor
    assert tool("ack", "email", descriptor, "--claim", job["claim"], "--failed", "--final", "--status", "no")[0] == 0
    assert "FAILED" in tool("lookup", descriptor)[1]
    assert tool("scan", "email", "--state", "failed")[1].splitlines()[1].endswith("no")
    assert tool("retry-failed", "email")[1] == "1 job retried\n"
    assert tool("dequeue", "email", "--limit", "10", "--ack", "--raw")[1] == '123{"job": "X"}'  # due last
    assert tool("dequeue", "email")[0] == 1
    assert tool("delete-jobs", "email", "--state", "succeeded", "--yes")[1] == "4 jobs deleted\n"
    assert tool("lookup", descriptor)[0] == 1
    assert tool("delete-queue", "email", PINLATER_ADMIN_PASSWORD="guessed")[0] == 1
    assert tool("delete-queue", "email")[0] == 0
    assert tool("count", "email")[0] == 1


def test_the_program_reads_stdin_and_ends_with_the_status_of_its_command(tool, environment):
    def program(*words, data=None):
        done = subprocess.run(
            [*TOOL, *words], input=data, capture_output=True, text=True, env=environment, timeout=50, check=False
        )
        return done.returncode, done.stdout, done.stderr

    tool("create-queue", "piped")
    assert program("enqueue", "piped", "--json-lines", "-", data="1\n2\n3\n") == (0, "3 jobs enqueued\n", "")
    status, out, err = program("count", "nowhere")
    assert (status, out) == (1, "")
    assert err.startswith("pinlater: there is no queue 'nowhere'")
    tool("delete-queue", "piped")


def test_jobs_are_cancelled(tool):
    tool("create-queue", "stops")
    first, second = (tool("enqueue", "stops", "x", *words)[1].strip() for words in ([], ["--delay", "600"]))
    claimed = json.loads(tool("dequeue", "stops", "--json")[1])
    assert tool("cancel", second, first, "--reason", "no need") == (0, "2 jobs cancelled\n", "")
    assert "IN_PROGRESS (asked to stop)" in tool("lookup", first)[1]
    assert "CANCELLED" in tool("lookup", second)[1]
    assert "cancelled: no need" in tool("lookup", second)[1]
    assert tool("ack", "stops", first, "--claim", claimed["claim"])[0] == 0
    assert tool("cancel", first) == (1, "0 jobs cancelled\n", f"pinlater: {first} is SUCCEEDED\n")
    status, out, err = tool("cancel", "stops:s1:p1:99999999", "--json")
    assert (status, json.loads(out)) == (1, {"cancelled": [], "left": ["stops:s1:p1:99999999"]})
    assert err == "pinlater: stops:s1:p1:99999999 does not exist\n"
    assert tool("cancel", "stops")[0] == 2, "this is no descriptor"
    for _ in range(3):
        tool("enqueue", "stops", "x")
    assert (
        tool("cancel-jobs", "stops", "--state", "pending", "--limit", "2", "--dry-run")[1]
        == "2 jobs would be cancelled\n"
    )
    assert tool("cancel-jobs", "stops", "--state", "pending", "--yes")[1] == "3 jobs cancelled\n"
    tool("delete-queue", "stops")


def test_results_are_printed_and_events_sent(tool):
    tool("create-queue", "talks")
    job = tool("enqueue", "talks", "x")[1].strip()
    status, _, err = tool("result", job)
    assert (status, "--wait" in err) == (69, True), "it has not ended"
    status, _, err = tool("result", job, "--wait", "0.1s")
    assert (status, "--wait" in err) == (69, False), "it has waited"
    assert tool("send", job, "approval", '{"by": "ada"}') == (0, "event sent\n", "")
    assert tool("send", job, "approval", "ada")[0] == 2, "that is no JSON"
    claimed = json.loads(tool("dequeue", "talks", "--json")[1])
    assert tool("ack", "talks", job, "--claim", claimed["claim"])[0] == 0
    assert tool("result", job, "--wait", "5s") == (0, "null\n", "")
    assert tool("send", job, "approval")[::2] == (1, f"pinlater: {job} is SUCCEEDED\n")
    other = tool("enqueue", "talks", "x")[1].strip()
    tool("cancel", other)
    status, _, err = tool("result", other)
    assert (status, "was cancelled" in err) == (1, True)
    tool("delete-queue", "talks")


def test_jobs_that_wait_for_later_are_made_due(tool):
    tool("create-queue", "early")
    first = tool("enqueue", "early", "x")[1].strip()
    assert tool("dequeue", "early")[0] == 0
    third = tool("enqueue", "early", "later", "--delay", "600")[1].strip()
    assert tool("run-now", third) == (0, "1 job made due\n", "")
    assert tool("run-now", third) == (1, "0 jobs made due\n", f"pinlater: {third} is already due\n")
    assert json.loads(tool("run-now", first, "--json")[1]) == {"made_due": [], "left": [first]}
    assert tool("dequeue", "early", "--raw")[1] == "later"
    tool("delete-queue", "early")


def test_failed_jobs_are_retried_by_descriptor(tool):
    tool("create-queue", "again")
    failed = tool("enqueue", "again", "x", "--attempts", "1")[1].strip()
    claimed = json.loads(tool("dequeue", "again", "--json")[1])
    assert tool("ack", "again", failed, "--claim", claimed["claim"], "--failed")[0] == 0
    waiting = tool("enqueue", "again", "y", "--delay", "600")[1].strip()
    assert tool("retry", failed, "again") == (2, "", tool("retry", "again")[2]), "a malformed one: nothing is changed"
    assert tool("retry", failed, "--attempts", "3") == (0, "1 job retried\n", "")
    assert "attempts left  3\n" in tool("lookup", failed)[1]
    assert tool("retry", failed, waiting) == (
        1,
        "0 jobs retried\n",
        f"pinlater: {failed} is PENDING\npinlater: {waiting} is PENDING\n",
    )
    assert json.loads(tool("retry", "again:s1:p1:99999999", "--json")[1])["retried"] == []
    tool("delete-queue", "again")


def test_pause_limit_and_resume(tool):
    tool("create-queue", "held")
    assert json.loads(tool("pause", "held", "--json")[1])["held"]["is_paused"] is True
    assert tool("dequeue", "held")[0] == 1
    status, out, _ = tool("limit", "held", "--rate", "2.5", "--running", "3")
    assert (status, out.splitlines()[1].split()) == (0, ["held", "paused", "2.5", "3", "all", "store"])
    assert tool("resume", "held")[1].splitlines()[1].split() == ["held", "open", "2.5", "3", "all", "store"]
    assert tool("limit", "held", "--rate", "0")[0] == 0
    assert tool("limit")[1].splitlines()[1].split() == ["held", "open", "-", "3", "all", "store"]
    assert tool("limit", "held", "--shards", "auto")[0] == 0
    assert tool("limit", "held", "--shards", "2")[1].splitlines()[1].split()[4] == "2"
    assert tool("pause", "nowhere")[0] == 1
    assert tool("limit", "nowhere")[0] == 1
    assert tool("limit", "--rate", "1")[0] == 2
    tool("delete-queue", "held")


def test_load_there_and_back(tool):
    tool("create-queue", "stress")
    words = ["--num-queries", "40", "--batch-size", "25", "--concurrency", "4", "--json"]
    assert json.loads(tool("load", "enqueue", "stress", *words)[1])["jobs"] == 1000
    done = json.loads(tool("load", "dequeue", "stress", *words, "--dequeue-success-percent", "100")[1])
    assert (done["jobs"], done["failed"]) == (1000, 0)
    assert tool("count", "stress", "--state", "succeeded")[1] == "1000\n"


def test_an_endless_load_ends_with_its_totals_on_interrupt(tool, environment):
    tool("create-queue", "stress")
    command = [*TOOL, "load", "enqueue", "stress", "--num-queries", "-1", "--json"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert b"QPS: " in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert json.loads(out)["queries"] > 0


def test_a_reader_that_has_seen_enough_is_no_error(tool, environment):
    tool("create-queue", "long")
    tool("enqueue", "long", "--json-lines", "-", data=b"1\n" * 5000)
    command = [*TOOL, "scan", "long", "--all"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline().startswith(b"DESCRIPTOR")
    process.stdout.close()
    deadline = time.monotonic() + 20
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process.returncode == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_jobs_of_one_failure_group_are_found_and_retried(tool):
    tool("create-queue", "broken")
    for error, number in (("OSError: disk 1 of 7", 3), ("ValueError: no such card", 2)):
        for _ in range(number):
            job = tool("enqueue", "broken", "--attempts", "1", '{"job": "Charge"}')[1].strip()
            claimed = json.loads(tool("dequeue", "broken", "--json")[1])
            assert tool("ack", "broken", job, "--claim", claimed["claim"], "--failed", "--status", error)[0] == 0
    groups = json.loads(tool("failing", "broken", "--json")[1])
    assert [(group["job"], group["error"], group["given_up"], group["retrying"]) for group in groups] == [
        ("", "OSError: disk # of #", 3, 0),
        ("", "ValueError: no such card", 2, 0),
    ]
    status, out, err = tool("failing", "broken")
    assert (status, err, len(out.splitlines())) == (0, "", 3)
    assert out.splitlines()[2].split()[:7] == ["broken", "-", "ValueError:", "no", "such", "card", "2"]
    disk = groups[0]["group"]
    assert len(tool("scan", "broken", "--state", "failed", "--group", disk, "--json")[1].splitlines()) == 3
    assert tool("retry-failed", "broken", "--group", disk, "--dry-run")[1] == "3 jobs would be retried\n"
    assert tool("retry-failed", "broken", "--group", disk)[1] == "3 jobs retried\n"
    assert [group["error"] for group in json.loads(tool("failing", "--json")[1]) if group["queue"] == "broken"] == [
        "ValueError: no such card"
    ]
    assert tool("failing", "broken", "--job", "Charge")[2] == "no job has failed, or all were retried or deleted\n"
    status, _, err = tool("scan", "broken", "--state", "succeeded", "--group", disk)
    assert (status, "PENDING or FAILED" in err) == (1, True)
    assert tool("delete-jobs", "broken", "--state", "pending", "--group", disk, "--yes")[1] == "0 jobs deleted\n"
    tool("delete-queue", "broken")


def complete(environment, line, position):
    variables = {"_PINLATER_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(position)}
    done = subprocess.run(TOOL, capture_output=True, text=True, env=environment | variables, timeout=50, check=False)
    return {item.partition(",")[2] for item in done.stdout.splitlines() if item}


def test_names_of_queues_and_states_are_completed(client, environment, server):
    client.create_queue("emails")
    client.create_queue("emergencies")
    client.create_queue("reports")
    assert complete(environment, "pinlater count em", 2) == {"emails", "emergencies"}
    assert complete(environment, "pinlater pause reports em", 3) == {"emails", "emergencies"}
    elsewhere = environment | {"PINLATER_SERVERS": "127.0.0.1:1"}
    assert complete(elsewhere, "pinlater count em", 2) == set()
    assert complete(elsewhere, f"pinlater count --server {server.address} rep", 4) == {"reports"}
    assert complete(environment, "pinlater scan emails --state s", 4) == {"succeeded"}
    assert "top" in complete(environment, "pinlater t", 1)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_for_shells(tool, shell):
    status, script, _ = tool("completion", shell)
    assert status == 0
    assert "_PINLATER_COMPLETE" in script

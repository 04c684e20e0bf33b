"""Jobs chosen and moved with the tool, on a real server."""

import json

import pytest

from pinlater import Client, JobState
from pinlater.client import Ack, JobKey, NewJob

PENDING, FAILED = JobState.PENDING, JobState.FAILED


@pytest.fixture
def client(server):
    with Client(server.address) as client:
        for queue in ("email", "email_big"):
            client.create_queue(queue)
        yield client
        for queue in ("email", "email_big"):
            client.delete_queue(queue, "open sesame")


@pytest.fixture
def failed(client):
    """Three failed jobs of two classes."""
    jobs = [("Send", "MemoryError"), ("Send", "OSError: refused"), ("Walk", "MemoryError: 1 GB")]
    bodies = [json.dumps({"job": name}).encode() for name, _ in jobs]
    names = client.enqueue_jobs("email", [NewJob(body, attempts=1, priority=2) for body in bodies])
    taken = client.dequeue_jobs("email", 3)
    client.ack("email", failed=[Ack(job.descriptor, job.claim, jobs[at][1]) for at, job in enumerate(taken)])
    return names


def moved(name, *more):
    return "move-jobs", "email", "--to", name, "--state", *more


def test_failed_jobs_are_moved_and_tried_again(tool, client, failed):
    chosen = moved("email_big", "failed", "--error", "^MemoryError", "--job", "Send")
    assert tool(*chosen, "--dry-run", "--json")[1] == '{"would_move": 1, "left": 0}\n'
    assert client.count("email", FAILED) == 3
    assert tool(*chosen, "--attempts", "3", "--yes") == (0, "1 job moved\n", "")
    assert tool(*chosen, "--yes")[1] == "0 jobs moved\n"
    (job,) = client.scan("email_big", PENDING, future=True).jobs
    assert (job.attempts_remaining, job.status) == (3, f"moved from {failed[0]}\nMemoryError")
    assert tool(*moved("email_big", "failed"), "--yes", "--json")[1] == '{"moved": 2, "left": 0}\n'
    assert (client.count("email", FAILED), client.count("email_big", FAILED)) == (0, 2)


def test_pending_jobs_are_moved_oldest_first_but_the_limit_takes_the_latest(tool, client):
    client.enqueue_jobs("email", [NewJob(b"%d" % number, run_after_ms=1000 + number) for number in range(700)])
    assert tool(*moved("email_big", "pending", "--limit", "600", "--yes"))[1] == "600 jobs moved\n"
    there = client.scan_all("email_big", PENDING, future=True, page_size=500)
    bodies = client.lookup([info.descriptor for info in there][:1], include_body=True)
    assert [job.body for job in bodies.values()] == [b"699"]
    assert client.count("email", PENDING) == 100


def test_what_cannot_be_moved_says_why(tool, client, failed):
    assert tool(*moved("email_big", "failed"))[0] == 2  # nobody is there to ask
    status, _, error = tool(*moved("nowhere", "failed", "--yes"))
    assert (status, "there is no queue 'nowhere'" in error) == (1, True)
    status, _, error = tool(*moved("email", "failed", "--yes"))
    assert (status, "are in email already" in error) == (2, True)
    status, _, error = tool(*moved("email_big", "pending", "--retry", "--yes"))
    assert (status, "add --state failed" in error) == (2, True)
    assert client.count("email", FAILED) == len(failed)


def test_a_job_that_is_not_moved_is_reported(tool, client):
    client.enqueue_jobs("email", [NewJob(b"ours", unique="nightly"), NewJob(b"x")])
    client.enqueue_jobs("email_big", [NewJob(b"theirs", unique="nightly")])
    status, out, error = tool(*moved("email_big", "pending", "--yes"))
    assert (status, out) == (0, "1 job moved\n")
    assert error.startswith("1 job stayed in email: ")


def test_the_same_filter_lists_retries_and_deletes(tool, client, failed):
    chosen = ("--job", "Send", "--newer-than", "1h", "--older-than", "0s", "--priority", "2")
    lines = tool("scan", "email", "--state", "failed", *chosen)[1].splitlines()
    assert [line.split()[0] for line in lines[1:]] == failed[1::-1]
    assert tool("scan", "email", "--state", "failed", "--job", "Send", "--limit", "1", "--json")[1].count("\n") == 1
    assert tool("scan", "email", "--state", "failed", "--older-than", "1h")[1] == ""
    assert tool("retry-failed", "email", *chosen, "--error", "refused")[1] == "1 job retried\n"
    assert tool("delete-jobs", "email", "--state", "failed", *chosen, "--yes")[1] == "1 job deleted\n"
    assert [info.descriptor for info in client.scan("email", FAILED).jobs] == failed[2:]


def test_the_jobs_of_an_ordered_key_are_moved_in_their_order(tool, client):
    key = JobKey("ada", 1, is_ordered=True)
    client.enqueue_jobs("email", [NewJob(b"%d" % number, key=key) for number in range(120)])
    assert tool(*moved("email_big", "pending", "--yes"))[1] == "120 jobs moved\n"
    names = [info.descriptor for info in client.scan_all("email_big", PENDING, future=True)]
    there = client.lookup(names, include_body=True)
    assert [there[name].body for name in reversed(names)] == [b"%d" % number for number in range(120)]
    assert {job.key for job in there.values()} == {key}
    assert [there[name].waits_for_key for name in reversed(names)] == [False] + 119 * [True]

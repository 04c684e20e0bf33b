"""Many jobs at once: retried and deleted by what they say."""

import json
import time

from pinlater.model.attempts import Ack
from pinlater.model.jobs import NewJob
from pinlater.model.state import JobState
from tests.integration.tool.screen import Screen
from tests.support.server import wait_for
from tests.support.tool import TOOL


def failed(client, queue, *jobs):
    """Let jobs fail for good: each is a body and the status of its attempt; return their descriptors."""
    client.create_queue(queue)
    names = client.enqueue_jobs(queue, [NewJob(body.encode(), attempts=1) for body, _ in jobs])
    statuses = dict(zip(names, (status for _, status in jobs), strict=True))
    taken = client.dequeue_jobs(queue, len(jobs))
    client.ack(queue, failed=[Ack(job.descriptor, job.claim, statuses[job.descriptor]) for job in taken])
    return names


def test_failed_jobs_are_retried_by_their_status_or_body(tool, client):
    jobs = [('{"user": 1}', "refused: SMTP 421"), ('{"user": 42}', "KeyError"), ('{"user": 3}', "refused: SMTP 550")]
    names = failed(client, "chosen", *jobs)
    assert tool("retry-failed", "chosen", "--where", "SMTP 4[0-9][0-9]", "--dry-run")[1] == "1 job would be retried\n"
    assert client.count("chosen", JobState.FAILED) == 3
    assert json.loads(tool("retry-failed", "chosen", "--where", "SMTP 4", "--json")[1]) == {"retried": 1}
    assert tool("retry-failed", "chosen", "--where", '"user": 42')[1] == "1 job retried\n"
    states = [client.lookup(names)[name].state for name in names]
    assert states == [JobState.PENDING, JobState.PENDING, JobState.FAILED]
    assert tool("retry-failed", "chosen", "--where", "no such text")[1] == "0 jobs retried\n"


def test_more_jobs_than_fit_into_one_call(tool, client):
    failed(client, "many", *[(f"{number}", "odd" if number % 2 else "even") for number in range(1300)])
    assert tool("retry-failed", "many", "--where", "odd", "--limit", "5000")[1] == "650 jobs retried\n"
    assert tool("retry-failed", "many", "--limit", "600", "--dry-run")[1] == "600 jobs would be retried\n"
    assert tool("retry-failed", "many", "--limit", "600")[1] == "600 jobs retried\n"
    assert client.count("many", JobState.FAILED) == 50
    assert tool("delete-jobs", "many", "--state", "pending", "--limit", "5000", "--yes")[1] == "1250 jobs deleted\n"


def test_jobs_are_deleted_by_their_status_or_body(tool, client):
    failed(client, "doomed", ("a", "address unknown"), ("b", "busy"), ("address unknown", "c"))
    words = ("delete-jobs", "doomed", "--state", "failed", "--where", "address unknown")
    assert tool(*words, "--dry-run")[1] == "2 jobs would be deleted\n"
    assert tool(*words)[0] == 2  # nobody is there to ask
    assert tool(*words, "--limit", "1", "--yes")[1] == "1 job deleted\n"
    assert tool(*words, "--yes")[1] == "1 job deleted\n"
    assert client.count("doomed", JobState.FAILED) == 1
    assert tool("delete-jobs", "doomed", "--state", "failed", "--dry-run")[1] == "1 job would be deleted\n"


def test_pending_jobs_that_are_not_due_are_found_too(tool, client):
    client.create_queue("later")
    client.enqueue_jobs("later", [NewJob(b"now"), NewJob(b"soon", run_after_ms=int(time.time() * 1000) + 10**7)])
    assert tool("delete-jobs", "later", "--state", "pending", "--where", "soon|now", "--yes")[1] == "2 jobs deleted\n"


def test_a_pattern_that_is_none_is_refused(tool):
    status, _, error = tool("retry-failed", "chosen", "--where", "(")
    assert status == 2
    assert "is not a regular expression" in error


def test_a_bar_shows_how_far_it_is(client, environment):
    failed(client, "barred", *[("x", "y")] * 600)
    with Screen([*TOOL, "retry-failed", "barred", "--where", "y"], environment) as screen:
        assert wait_for(lambda: "600 jobs retried" in screen.text())
        assert "reading barred" in screen.text()
        assert "600/600" in screen.text()
        assert screen.status() == 0

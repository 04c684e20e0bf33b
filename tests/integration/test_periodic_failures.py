"""Periodic jobs whose runs fail: people see them, by the client, the tool and the dashboard."""

import json

import pytest
from click.testing import CliRunner

from pinlater import Constant, Job, JobState
from pinlater.cli.program import tool
from pinlater.model.jobs import NewJob
from pinlater.testing import LocalServer
from pinlater.worker.session import failure_text
from tests.unit.dashboard.app import dashboard


class Bill(Job, queue="bills", every=60, attempts=2, backoff=Constant(1)):
    def run(self, context):
        if broken:
            raise ValueError("no rate for EUR")


class Poll(Job, queue="polls", every=60, attempts=1):
    def run(self, context):
        pass


broken = []


@pytest.fixture
def server(tmp_path):
    broken[:] = [True]
    with LocalServer(tmp_path) as server:
        server.advance(62 - server.now.second)  # two seconds after a tick
        yield server


def let_pass(server, ticks):
    server.run_worker(Bill, Poll)
    for _ in range(ticks):
        server.advance(60)
        server.run_worker(Bill, Poll)
        server.advance(1)
        server.run_worker(Bill, Poll)


def run_tool(server, *words):
    done = CliRunner().invoke(tool, ["--server", server.address, *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


def test_the_client_tells_which_periodic_jobs_fail(server):
    let_pass(server, 3)
    client = server.client()
    client.enqueue_jobs("bills", [NewJob(b"{}", unique="Bill with a key of its own")])
    bill, poll = client.periodic_jobs().jobs
    assert (bill.queue, bill.name, bill.schedule) == ("bills", "Bill", "every 60.0")
    assert (bill.runs, bill.failures) == (3, 3)
    assert bill.last_failure.error == "ValueError: no rate for EUR"
    assert 0 < bill.due_ms - server.now.timestamp() * 1000 <= 60_000
    assert (poll.name, poll.runs, poll.failures, poll.last_failure) == ("Poll", 3, 0, None)
    assert [job.name for job in client.periodic_jobs(["polls"]).jobs] == ["Poll"]
    assert (bill.last_run.result, bill.last_run.attempts, poll.last_run.result) == ("failed", 2, "succeeded")
    assert client.count("bills", JobState.FAILED) == 0  # which is why the list of failed jobs does not show it


def test_a_success_ends_the_row_of_failures(server):
    let_pass(server, 2)
    broken.clear()
    let_pass(server, 1)
    [bill] = server.client().periodic_jobs(["bills"]).jobs
    assert (bill.runs, bill.failures) == (3, 0)
    assert bill.last_run.result == "succeeded"
    assert bill.last_run.due_ms <= bill.last_run.started_ms <= bill.last_run.ended_ms < bill.due_ms
    assert bill.last_failure.error == "ValueError: no rate for EUR"


@pytest.mark.parametrize("host", ["web1", "a-host-with-a-name-of-32-letters"])
def test_the_text_of_the_last_failure_is_there_however_many_there_were(server, host, monkeypatch):
    monkeypatch.setattr(failure_text, "_HOST", host)  # its length decides where the text of many failures is cut
    let_pass(server, 40)
    [bill] = server.client().periodic_jobs(["bills"]).jobs
    assert (bill.failures, bill.last_failure.error) == (40, "ValueError: no rate for EUR")
    newest = max(failed.at_ms for failed in bill.info.failed_attempts)
    assert bill.last_failure.at_ms == newest
    server.advance(60)
    server.run_worker(Bill)  # the first of the next two attempts
    [bill] = server.client().periodic_jobs(["bills"]).jobs
    assert (bill.last_failure.attempt, bill.last_failure.error) == (1, "ValueError: no rate for EUR")
    assert bill.last_failure.traceback.endswith('raise ValueError("no rate for EUR")')


def test_the_tool_lists_them(server):
    let_pass(server, 2)
    lines = run_tool(server, "periodic").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["QUEUE", "JOB"], ["bills", "Bill"], ["polls", "Poll"]]
    assert "no rate for EUR" in lines[1]
    assert len(run_tool(server, "periodic", "--failed").stdout.splitlines()) == 2
    assert "no periodic job failed in its last run" in run_tool(server, "periodic", "polls", "--failed").stderr
    [bill] = json.loads(run_tool(server, "periodic", "--failed", "--json").stdout)
    assert (bill["name"], bill["failures"], bill["last_failure"]["error"]) == ("Bill", 2, "ValueError: no rate for EUR")
    assert bill["schedule_in_words"] == "every minute"
    assert (bill["last_run"]["result"], bill["last_run"]["attempts"]) == ("failed", 2)


def test_the_tool_says_which_of_them_run_or_retry(server):
    server.run_worker(Bill, Poll)
    server.advance(60)
    assert len(server.client().dequeue_jobs("polls", 1)) == 1
    server.run_worker(Bill)
    nexts = [line.split()[4] for line in run_tool(server, "periodic").stdout.splitlines()[1:]]
    assert nexts == ["retrying", "running"]


def test_a_paused_job_does_not_run_until_it_is_resumed(server):
    broken.clear()
    let_pass(server, 1)
    assert "Bill is paused" in run_tool(server, "pause-periodic", "bills", "Bill").stderr
    let_pass(server, 3)  # which enqueues the jobs again, as a deployment does
    [bill] = server.client().periodic_jobs(["bills"]).jobs
    assert (bill.is_paused, bill.runs) == (True, 1)
    lines = run_tool(server, "periodic", "bills").stdout.splitlines()
    assert lines[1].split()[4] == "paused"
    assert "Bill is resumed" in run_tool(server, "resume-periodic", "bills", "Bill").stderr
    server.run_worker(Bill, Poll)  # once for all that were missed
    [bill] = server.client().periodic_jobs(["bills"]).jobs
    assert (bill.is_paused, bill.runs, bill.last_run.result) == (False, 2, "succeeded")
    assert bill.last_run.due_ms < bill.last_run.started_ms - 120_000


def test_what_cannot_be_paused_or_resumed_is_explained(server):
    let_pass(server, 1)
    assert "Poll is paused" in run_tool(server, "pause-periodic", "polls", "Poll").stderr
    server.advance(60)
    [_] = server.client().dequeue_jobs("bills", 1)
    for command, queue, name, said in (
        ("pause-periodic", "bills", "Nothing", "there is no periodic job Nothing in queue bills"),
        ("pause-periodic", "bills", "Bill", "Bill runs now: pause it when this run has ended"),
        ("pause-periodic", "polls", "Poll", "Poll is paused already"),
        ("resume-periodic", "bills", "Bill", "Bill is not paused"),
    ):
        done = CliRunner().invoke(tool, ["--server", server.address, command, queue, name], standalone_mode=False)
        assert done.return_value == 1
        assert said in done.stderr


def test_the_page_of_failures_shows_them(server):
    let_pass(server, 2)
    with dashboard(server.address) as browser:
        page = browser.get("/failing").text
        assert "Periodic jobs whose last run failed" in page
        assert "<b>Bill</b>" in page
        assert "no rate for EUR" in page
        assert "Poll" not in page
        assert "Periodic jobs" not in browser.get("/failing?queue=polls").text

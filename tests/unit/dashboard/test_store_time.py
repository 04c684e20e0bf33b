"""The dashboard goes by the clock of the store, which is two hours ahead of that of its machine here."""

import asyncio
import contextlib
import re

import pytest

from pinlater.client.server_clock import ServerClock
from pinlater.dashboard.clock_reader import ClockReader
from pinlater.errors import CallTimeout
from pinlater.model.jobs import NewJob
from pinlater.model.messages import CancelledJobs
from pinlater.model.state import JobState
from pinlater.model.workers import WorkerProcess, WorkerReport
from tests.support.server import wait_for
from tests.unit.dashboard.app import dashboard, post, token_in

AHEAD = 7200


@pytest.fixture
def browser(local_server, client):
    client.enqueue_jobs("pins", [NewJob(b"{}")])
    local_server.advance(AHEAD)
    with dashboard(local_server.address) as browser:
        app = browser.app.state.dashboard
        wait_for(lambda: app.clock.is_known)
        yield browser


def test_ages_count_from_its_time(browser, client):
    [job] = client.scan("pins", JobState.PENDING).jobs
    assert re.search(
        r"<dt>Created</dt><dd><time [^>]*>2 h( \d+ min)? ago", browser.get(f"/job?id={job.descriptor}").text
    )


def test_a_worker_that_has_just_reported_is_not_silent(browser, client):
    client.report_worker(WorkerReport("a", "web1", processes=[WorkerProcess(1, queues=["pins"])]), 60)
    assert 'badge sign critical">silent' not in browser.get("/workers").text
    assert re.search(r'data-label="workers"[^>]*>\D*1\D', browser.get("/").text.partition('id="q-pins"')[2])


def test_a_delay_counts_from_its_time(browser, client):
    fields = {"queue": "pins", "body": "{}", "priority": "1", "attempts": "1", "delay": "30", "unit": "minutes"}
    assert post(browser, "/enqueue", token_in(browser.get("/enqueue?queue=pins")), **fields).status_code == 303
    [job] = client.scan("pins", JobState.PENDING, future=True).jobs
    assert 1_740_000 <= job.run_after_ms - job.created_at_ms <= 1_801_000


class Server:
    """Tells a time that a test sets; None: does not answer."""

    def __init__(self):
        self.told_ms = None

    async def cancelled_jobs(self, _):
        if self.told_ms is None:
            raise CallTimeout("no reply")
        return CancelledJobs([], self.told_ms)


def test_without_a_server_the_clock_goes_on():
    server, clock = Server(), ServerClock(elapsed=lambda: 0.0, wall=lambda: 5.0)
    reader = ClockReader(server, clock)

    def read():
        with contextlib.suppress(CallTimeout):
            asyncio.run(reader.read())
        return clock.now()

    assert read() == 5.0
    server.told_ms = 7000
    assert read() == 7.001
    server.told_ms = None
    assert read() == 7.001

"""The drill: twelve incidents. The first page names each in time; two clicks lead to its jobs and to what mends it.

What is mended elsewhere, on a host or in code, the first page says.
"""

import contextlib
import json
import os
import re
import shutil
import time

import pytest

from pinlater.client import Client, NewJob, WorkerProcess, WorkerReport
from pinlater.model.attempts import Ack
from pinlater.model.jobs import JobInfo
from pinlater.model.keys import JobKey
from pinlater.model.state import JobState
from tests.browser import drill_jobs
from tests.support.redis_service import RedisService, shard_file
from tests.support.server import PASSWORD, ServerProcess, wait_for
from tests.support.stalls import Stalls
from tests.system.worker_program import Worker

MOST_SECONDS = float(os.environ.get("PINLATER_TEST_NAMED_SECONDS", "60"))
"""How long the first page may take to name trouble. Ten are promised on a machine that is not overloaded."""

MINUTE_MS = 60_000
HOST = "worker-7.example.com"


@pytest.fixture(scope="module")
def server(chromium, tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("server"), DASHBOARD="true") as server:
        yield server


@pytest.fixture
def page(page):
    page.goto("/")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Queues").wait_for()
    page.complaints.clear()  # that of the log-in
    return page


@pytest.fixture
def queue(client):
    """Make queues, which are deleted afterwards, so that each incident is alone."""
    made = []

    def make(name):
        client.create_queue(name)
        made.append(name)
        return name

    yield make
    for name in made:
        client.delete_queue(name, PASSWORD)
    for report in client.workers():
        client.report_worker(report, 0)


@pytest.fixture
def workers(server, queue, tmp_path):
    """Start workers with jobs of the drill; those that still run are killed at the end."""
    started = []
    shutil.copy(drill_jobs.__file__, tmp_path / "jobs.py")

    def start(*queues):
        served = [part for queue in queues for part in ("--queue", f"{queue}=1")]
        started.append(Worker(tmp_path, "jobs", "--server", server.address, *served))
        return started[-1]

    yield start
    for worker in started:
        worker.end()


def enqueue(client, queue, job, count=1, key=None, **fields):
    attempts = fields.pop("attempts", 5)
    body = json.dumps({"job": job, **fields}).encode()
    return client.enqueue_jobs(queue, [NewJob(body, key=key, attempts=attempts) for _ in range(count)])


def named(page, kind, *words, since, meanwhile=lambda: None):
    """Wait until the first page names an incident at its top; return where it says so."""
    page.goto("/")
    first = page.locator("#triage li").nth(0)
    found = first.and_(page.locator(f'[data-finding="{kind}"]'))
    for word in words:
        found = found.filter(has_text=word)
    while not found.count():
        assert time.monotonic() < since + MOST_SECONDS, page.locator("#triage").inner_text()
        meanwhile()
        page.wait_for_timeout(200)
    return found


def follow(finding):
    """Click the first time."""
    finding.locator("a[data-open]").click()


def test_an_outage_with_retries(page, client, queue, workers):
    queue("mail")
    workers("mail")
    wait_for(client.workers)
    since = time.monotonic()
    enqueue(client, "mail", "CallMailServer", 60, to="ada@example.com")
    follow(named(page, "retrying", "mail", "60 jobs", "ConnectionRefusedError: mail.example.com", since=since))
    page.get_by_role("row").filter(has_text="CallMailServer").filter(has_text="ada@example.com").nth(49).wait_for()
    page.get_by_text("All 60…").click()
    page.locator("details[open]").get_by_role("button", name="Run now…").click()
    page.get_by_role("button", name="Run 60 jobs now").click()
    page.get_by_text(re.compile("Done:.*60 jobs")).wait_for()


def test_failures_flood_a_queue(page, client, queue, workers):
    queue("uploads")
    workers("uploads")
    wait_for(client.workers)
    since = time.monotonic()
    enqueue(client, "uploads", "ReadUpload", 200, number=7, attempts=1)
    follow(named(page, "failing", "uploads", "200", since=since))
    page.get_by_role("row").filter(has_text="KeyError: 'locale'").get_by_role("button", name="Retry…").click()
    page.get_by_role("button", name="Retry 200 jobs").wait_for()


def test_poison(page, client, queue, workers):
    queue("images")
    workers("images")
    wait_for(client.workers)
    since = time.monotonic()
    enqueue(client, "images", "ResizeHugeImage")
    follow(named(page, "poison", "images", "ResizeHugeImage", since=since))
    page.get_by_role("row").filter(has_text="SIGSEGV").get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete 1 job").wait_for()


def test_paused_and_forgotten(page, client, queue):
    forgotten = queue("newsletters")
    client.change_queue(forgotten, paused=True)
    since, due_ms = time.monotonic(), int(time.time() * 1000) - 30 * MINUTE_MS
    body = b'{"job": "SendNewsletter", "issue": 7}'
    client.import_jobs(
        forgotten, [JobInfo(f"{forgotten}:s1:p1:1", JobState.PENDING, 3, 3, "", due_ms, due_ms, due_ms, body=body)] * 20
    )
    follow(named(page, "paused", forgotten, "20 jobs", "may be forgotten", since=since))
    page.get_by_role("button", name="Resume").click()
    page.get_by_text("The queue is resumed.").wait_for()
    assert len(client.dequeue_jobs(forgotten, 100)) == 20


def test_periodic_job_fails(page, client, queue, workers):
    queue("books")
    workers("books")
    wait_for(client.workers)
    since = time.monotonic()
    follow(named(page, "periodic_failed", "CloseBooks", "there is no rate for today", since=since))
    row = page.get_by_role("row").filter(has_text="CloseBooks")
    row.get_by_text("there is no rate for today").wait_for()
    row.get_by_role("button", name="Run now").or_(row.get_by_role("button", name="Pause")).first.wait_for()


def test_unknown_class_after_a_deploy(page, client, queue, workers):
    queue("mail")
    worker = workers("mail")
    wait_for(client.workers, what=lambda: worker.log)
    since = time.monotonic()
    enqueue(client, "mail", "SendReminder", 30, to="ada@example.com")
    follow(named(page, "unknown_class", "SendReminder", since=since))
    page.get_by_role("row").filter(has_text="SendReminder").filter(has_text="ada@example.com").first.wait_for()
    worker.stop()
    page.get_by_text("All that match…").click()
    page.locator("details[open]").get_by_role("button", name="Move…").wait_for()


def test_one_tenant_floods(page, client, queue, workers):
    flooded = queue("exports")
    workers(flooded)
    wait_for(client.workers)
    since = time.monotonic()
    enqueue(client, flooded, "Export", 300, tenant="7", key=JobKey("tenant-7", 1))
    enqueue(client, flooded, "Export", 20, tenant="8", key=JobKey("tenant-8", 1))
    follow(named(page, "key_flood", flooded, "tenant-7", since=since))
    page.get_by_role("row").filter(has_text="tenant-7").nth(20).wait_for()
    page.get_by_text(re.compile(r"^All \d+…$")).click()
    page.locator("details[open]").get_by_role("button", name="Cancel…").wait_for()


def test_memory_leaks(page, client, queue, workers):
    queue("keep")
    workers("keep")
    enqueue(client, "keep", "KeepAll")
    wait_for(lambda: any(one.ended for report in client.workers() for one in report.processes))
    since = time.monotonic()
    enqueue(client, "keep", "KeepAll", 20)
    follow(named(page, "memory_grows", "--max-memory", since=since))
    page.get_by_role("heading", name="Worker", exact=True).wait_for()
    page.get_by_role("row").filter(has_text="keep").first.wait_for()
    page.locator("#triage").filter(has_text="kill -HUP").get_by_role("button", name="Copy").wait_for()


def test_the_clock_of_a_worker_is_off(page, client, queue):
    served, since = queue("clocks"), time.monotonic()
    report = WorkerReport(HOST, HOST, 42, processes=[WorkerProcess(43, queues=[served])])

    def tell():
        client.report_worker(report._replace(sent_ms=int(time.time() * 1000) + 60 * MINUTE_MS), 60)

    follow(named(page, "clock_off", HOST, "60 minutes ahead", "NTP", since=since, meanwhile=tell))
    page.get_by_role("heading", name=HOST).wait_for()
    page.get_by_text(re.compile("clock (59 min|1 h)")).first.wait_for()
    tell()
    page.locator("#triage").filter(has_text="timedatectl set-ntp true").get_by_role("button", name="Copy").wait_for()


def test_all_workers_of_a_pool_are_gone(page, client, queue, workers):
    queue("letters")
    worker = workers("letters")
    sent = set()  # a worker that has reported once only may be one that connects each time
    wait_for(lambda: sent.update(one.sent_ms for one in client.workers()) or len(sent) > 1, what=lambda: worker.log)
    worker.end()
    since = time.monotonic()
    enqueue(client, "letters", "CallMailServer", 10, to="ada@example.com")
    follow(named(page, "pool_gone", "letters", "jobs wait", since=since))
    # The page forgets a killed worker 30 s after its last report, which may be over by now.
    page.get_by_text("connection ended").or_(page.get_by_text("No workers for this queue")).wait_for()


def test_the_store_is_slow(page, server, client, queue, tmp_path):
    orders = queue("orders")
    with Stalls(server.child(), tmp_path / "trace", 1.0):
        since = time.monotonic()
        follow(named(page, "store_slow", "disk", since=since, meanwhile=lambda: enqueue(client, orders, "Ship")))
        page.get_by_role("row").filter(has_text="pinlater.db").wait_for()
        page.locator("#triage").filter(has_text="One in twenty calls of enqueue").wait_for()
        page.get_by_role("table", name="Calls to the store by operation").get_by_role("row", name="enqueue").wait_for()


def test_the_disk_is_nearly_full(chromium, tmp_path):
    redis = RedisService(tmp_path / "redis", maxmemory="64mb")
    with contextlib.closing(redis):
        settings = {"PINLATER_BACKEND": "redis", "BACKEND_CONFIG": str(shard_file(tmp_path, [redis]))}
        server = ServerProcess(tmp_path / "server", ADMIN_PASSWORD_HASH="", DASHBOARD="true", **settings)
        page = chromium.new_page(base_url=f"http://127.0.0.1:{server.admin_port}")
        try:
            with Client(server.address) as client:
                client.create_queue("reports")
                enqueue(client, "reports", "Report", 30, year=2026)
                claimed = client.dequeue_jobs("reports", 20)
                client.ack("reports", succeeded=[Ack(one.descriptor, claim=one.claim) for one in claimed])
            follow(named(page, "store_full", "shard 1", "maxmemory", since=time.monotonic()))
            page.get_by_role("row").filter(has_text="MiB").first.wait_for()
            row = page.get_by_role("table", name="Queues and states with most jobs").get_by_role("row").nth(1)
            row.filter(has_text="pinlater delete-jobs reports --state succeeded --older-than 1d").wait_for()
            row.get_by_role("link", name="Choose and delete").click()
            page.get_by_text("All 20…").click()
            page.locator("details[open]").get_by_role("button", name="Delete…").wait_for()
        finally:
            page.close()
            server.stop()

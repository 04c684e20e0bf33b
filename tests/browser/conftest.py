"""Headless Chromium, and a server with something to look at."""

import time

import pytest

from pinlater import Client
from pinlater.model.attempts import Ack
from pinlater.model.jobs import NewJob
from pinlater.model.status import format_failure, format_origin, status_space
from tests.support.chromium import program, running
from tests.support.server import ServerProcess


@pytest.fixture(scope="module")  # not longer: while it lives, asyncio believes that a loop is running
def chromium():
    if program() is None:
        pytest.skip(
            "no chromium to look at the dashboard with: apt-get install chromium-headless-shell, or set CHROMIUM"
        )
    with running() as browser:
        yield browser


@pytest.fixture(scope="module")
def server(chromium, tmp_path_factory):
    """Asked for after Chromium, so that none is started in vain."""
    server = ServerProcess(tmp_path_factory.mktemp("server"), ADMIN_PASSWORD_HASH="", DASHBOARD="true")
    yield server
    assert server.process.poll() is None, server.log
    server.stop()


@pytest.fixture
def page(chromium, server):
    """A window; what the page complains of, such as a forbidden script, fails the test."""
    complaints = []
    context = chromium.new_context(
        base_url=f"http://127.0.0.1:{server.admin_port}", viewport={"width": 1280, "height": 800}
    )
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in {"error", "warning"} else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.complaints = complaints
    yield page
    context.close()
    assert complaints == []


@pytest.fixture
def client(server):
    with Client(f"127.0.0.1:{server.port}") as client:
        yield client


def fail(client, queue, *errors):
    """Leave one failed job for each error."""
    client.create_queue(queue)
    descriptors = client.enqueue_jobs(queue, [NewJob(b'{"job": "Send", "user": 42}', attempts=1) for _ in errors])
    errors_of = dict(zip(descriptors, errors, strict=True))
    claimed = client.dequeue_jobs(queue, len(errors))
    client.ack(queue, failed=[Ack(job.descriptor, job.claim, status_of(errors_of[job.descriptor])) for job in claimed])
    return descriptors


def status_of(error, host="web1"):
    """Return the status of a job whose last attempt failed."""
    frames = ['  File "/srv/jobs.py", line 12, in run\n    mailer.send()']
    return format_failure(
        f"attempt 1/1 {format_origin(host, 42, time.time())} 0.52 s", error, frames, status_space(1, 1)
    )

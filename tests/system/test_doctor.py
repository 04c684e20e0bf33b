"""``pinlater doctor`` beside a real server and a real worker with made faults."""

import json
import signal
import subprocess
import sys

import pytest

from pinlater.client import Client, NewJob
from pinlater.model.attempts import Ack
from pinlater.model.state import JobState
from tests.support.server import ServerProcess, environment
from tests.support.tool import run_tool
from tests.system.worker_program import put, wait_for

NOTE = "import sys; open(sys.argv[1], 'a').write(sys.argv[2] + '\\n')"


def doctor(server, *words):
    status, out, err = run_tool("doctor", "--server", server.address, "--json", *words)
    assert status in {0, 1}, err
    return status, {(found["kind"], found["subject"]): found for found in json.loads(out)["findings"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server whose store is not called slow, however busy the machine is."""
    with ServerProcess(tmp_path_factory.mktemp("server"), WARN_STORE_SECONDS="600") as server:
        yield server


def fail_for_now(client, queue, count):
    """Let jobs fail as in an outage: they are tried again later."""
    client.enqueue_jobs(queue, [NewJob(b"{}")] * count)
    line = "[attempt 1/2 2026-11-23T07:00:00Z web1 42 0.52 s] ConnectionRefusedError: no mail server\n"
    jobs = client.dequeue_jobs(queue, count)
    client.ack(queue, [], [Ack(job.descriptor, job.claim, line, retry_delay=600) for job in jobs])


FAULTS = {
    ("no_worker", "holds"),
    ("poison", "fails Fails"),
    ("unknown_class", "touch Newsletter"),
    ("retrying", "counts"),
    ("failing", "fails"),
    ("paused", "sleeps"),
}


def test_made_faults_are_named(start, server, client):
    worker = start("--queue", "touch=1", "--queue", "fails=1")
    wait_for(lambda: any(report.processes for report in client.workers()), what=lambda: worker.log)
    admin = f"http://127.0.0.1:{server.admin_port}"
    assert doctor(server, "touch", "--admin", admin) == (0, {})

    client.enqueue_jobs("touch", [NewJob(b'{"job": "Newsletter"}')])
    client.change_queue("sleeps", paused=True)
    client.enqueue_jobs("sleeps", [NewJob(b"x", run_after_ms=1_700_000_000_000)])
    client.enqueue_jobs("holds", [NewJob(b"x", run_after_ms=1_700_000_000_000)])
    for _ in range(12):
        put(client, "Fails", "fails", how="give up")
    # A job that kills its process at once may take reasons along that the server has not read yet.
    wait_for(lambda: client.count("fails", JobState.FAILED) == 12, what=lambda: worker.log)
    put(client, "Fails", "fails", how="kill")
    fail_for_now(client, "counts", 12)
    found = {}

    def are_named():
        found.update(doctor(server)[1])
        return found.keys() >= FAULTS

    wait_for(are_named, what=lambda: f"{found.keys()}\n{worker.log}")
    status, found = doctor(server, "--admin", admin)
    assert (status, found.keys()) == (1, FAULTS)
    assert list(found)[-1] == ("paused", "sleeps"), "the sickest come first"
    assert (found["failing", "fails"]["job"], found["failing", "fails"]["severity"]) == ("Fails", "critical")
    assert "Most of all with KeyError: 'nowhere'" in found["failing", "fails"]["sentence"]
    assert "12 of them with ConnectionRefusedError: no mail server" in found["retrying", "counts"]["sentence"]
    assert found["no_worker", "holds"]["numbers"]["jobs"] == 1


@pytest.mark.usefixtures("start")
def test_findings_are_told_when_they_come_and_when_they_go(server, client, tmp_path):
    client.change_queue("sleeps", paused=True)
    put(client, "Sleep", "sleeps", name="nap", seconds=0)
    notes = tmp_path / "notes"
    notes.touch()
    command = f'{sys.executable} -c "{NOTE}" {notes}'
    watching = subprocess.Popen(
        [sys.executable, "-m", "pinlater.cli", "doctor", "sleeps", "--server", server.address, "--level", "notice",
         "--every", "1", "--notify", command],
        env=environment(),
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(lambda: "notice: Queue sleeps is paused, and jobs wait." in notes.read_text())
        [job] = client.scan("sleeps", JobState.PENDING).jobs
        client.delete_these("sleeps", [job.descriptor], JobState.PENDING)
        wait_for(lambda: "over: Queue sleeps is paused, and jobs wait\n" in notes.read_text())
        watching.send_signal(signal.SIGTERM)
        assert watching.wait(20) == 0
    finally:
        watching.kill()
        watching.wait()
    assert len(notes.read_text().splitlines()) == 2


def test_the_server_s_settings_say_from_when_on_it_warns(tmp_path):
    with ServerProcess(tmp_path / "server", WARN_RETRYING_JOBS="3") as server, Client(server.address) as client:
        client.create_queue("mail")
        fail_for_now(client, "mail", 5)
        admin = f"http://127.0.0.1:{server.admin_port}"
        wait_for(lambda: "WARN_RETRYING_JOBS" in server.page("/metrics")[1])
        wait_for(lambda: ("retrying", "mail") in doctor(server, "--admin", admin)[1])
        assert ("retrying", "mail") not in doctor(server)[1], "it uses the defaults"

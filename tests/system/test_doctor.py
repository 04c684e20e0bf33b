"""``pinlater doctor`` beside a real server and a real worker with made faults."""

import json
import signal
import subprocess
import sys

import pytest

from pinlater.client import NewJob
from pinlater.model.state import JobState
from tests.support.server import environment
from tests.support.tool import run_tool
from tests.system.worker_program import put, wait_for

pytestmark = [pytest.mark.timeout(120), pytest.mark.skipif(sys.platform != "linux", reason="workers fork")]

NOTE = "import sys; open(sys.argv[1], 'a').write(sys.argv[2] + '\\n')"


def doctor(server, *words):
    status, out, err = run_tool("doctor", "--server", server.address, "--json", *words)
    assert status in {0, 1}, err
    return status, {(found["kind"], found["subject"]): found for found in json.loads(out)["findings"]}


def test_made_faults_are_named(start, server, client, tmp_path):
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
    wait_for(
        lambda: {("unknown_class", "touch Newsletter"), ("failing", "fails")} <= doctor(server)[1].keys(),
        what=lambda: worker.log,
    )
    status, found = doctor(server, "--admin", admin)
    assert status == 1
    expected = [
        ("no_worker", "holds"),
        ("unknown_class", "touch Newsletter"),
        ("failing", "fails"),
        ("paused", "sleeps"),
    ]
    assert list(found) == expected
    assert (found["failing", "fails"]["job"], found["failing", "fails"]["severity"]) == ("Fails", "critical")
    assert "Most of all with KeyError: 'nowhere'" in found["failing", "fails"]["sentence"]
    assert found["no_worker", "holds"]["numbers"]["jobs"] == 1


def test_findings_are_told_when_they_come_and_when_they_go(start, server, client, tmp_path):
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

"""Programs that are started without standard input, output and error, as by some init scripts."""

import sys
import urllib.request

import pytest

from pinlater.client import Client
from pinlater.model.state import JobState
from tests.support.ports import free_port
from tests.support.server import ServerProcess
from tests.system.worker_program import Worker, add_jobs, await_state, put


@pytest.fixture
def closed_streams(tmp_path, monkeypatch):
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@" <&- >&- 2>&-\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


@pytest.mark.usefixtures("closed_streams")
def test_server_and_worker_run_without_standard_streams(tmp_path):
    add_jobs(tmp_path, "jobs")
    port = free_port()
    with (
        ServerProcess(tmp_path / "server") as server,
        Worker(tmp_path, "jobs", "--server", server.address, "--health", port) as worker,
        Client(server.address) as client,
    ):
        client.create_queue("touch")
        for how in ("print", "log"):
            await_state(client, put(client, "Prints", "touch", how=how), JobState.SUCCEEDED)
        assert server.page("/readyz") == (200, "ok\n")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=20) as answer:
            assert answer.status == 200
        assert worker.stop() == 0
        assert server.stop() == 0

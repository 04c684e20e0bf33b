"""Completion, in a real shell: Tab is pressed, and what the shell then has typed is seen."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time

import pytest

from pinlater import Client
from tests.support.server import ROOT, ServerProcess

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("server")) as server:
        with Client(server.address) as client:
            for name in ("emails", "reports_daily", "reports_weekly"):
                client.create_queue(name)
        yield server


class Bash:
    """An interactive bash with the tool on its path, and its completion loaded."""

    def __init__(self, folder, servers):
        program = folder / "pinlater"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pinlater.cli "$@"\n')
        program.chmod(0o755)
        path = os.pathsep.join([str(folder), os.environ["PATH"]])
        environment = {"PATH": path, "PYTHONPATH": str(ROOT), "TERM": "dumb", "PS1": "> ", "HOME": str(folder)}
        self._terminal, inside = pty.openpty()
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env=environment | {"PINLATER_SERVERS": servers, "HISTFILE": "/dev/null"},
            start_new_session=True,
        )
        os.close(inside)
        self._shown = ""
        self.type('eval "$(pinlater completion bash)"; echo re""ady\n')
        self.wait_for("ready")

    def type(self, text):
        os.write(self._terminal, text.encode())

    def wait_for(self, text):
        """Return what came up to this text, which has to come."""
        deadline = time.monotonic() + 30
        while text not in self._shown:
            assert time.monotonic() < deadline, self._shown
            if select.select([self._terminal], [], [], 0.1)[0]:
                self._shown += os.read(self._terminal, 10_000).decode()
        before, _, self._shown = self._shown.partition(text)
        return before

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)


@pytest.fixture
def bash(tmp_path, server):
    shell = Bash(tmp_path, server.address)
    yield shell
    shell.close()


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("pinlater retry-f\t", "retry-failed "),
        ("pinlater count em\t", "emails "),
        ("pinlater move-jobs emails --to reports_w\t", "reports_weekly "),
        ("pinlater move-jobs emails --state f\t", "failed "),
        ("pinlater scan emails --state in\t", "in-progress "),
        ("pinlater retry-failed emails --older\t", "--older-than "),
        ("pinlater count rep\t", "reports_"),
    ],
)
def test_bash_completes(bash, typed, completed):
    bash.type(typed)
    bash.wait_for(typed.rpartition(" ")[2].rstrip("\t"))
    bash.wait_for(completed.removeprefix(typed.rpartition(" ")[2].rstrip("\t")))


def test_bash_lists_what_is_possible(bash):
    bash.type("pinlater count reports_\t\t")
    bash.wait_for("reports_daily")
    bash.wait_for("reports_weekly")


def test_bash_gets_no_names_and_waits_little_when_no_server_is_there(tmp_path):
    shell = Bash(tmp_path, "127.0.0.1:1")
    shell.type('pinlater count em\tx; echo s""een\n')
    assert "emails" not in shell.wait_for("seen")
    shell.close()

"""A worker at a terminal: ``breakpoint()`` in a job."""

import contextlib
import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
import time

import pytest

from pinlater.model.state import JobState
from tests.support.server import environment
from tests.system.worker_program import await_state, put, ran

pytestmark = [pytest.mark.timeout(120), pytest.mark.skipif(sys.platform != "linux", reason="workers fork")]

JOBS = """
from pathlib import Path
from pinlater import Job


class Looked(Job, queue="sleeps", timeout=0.3, kill_after=1, stall_after=0.2, attempts=1):
    answer: int = 0

    def run(self, context):
        breakpoint()
        Path("ran.txt").write_text(f"{self.answer} attempt {context.attempt}\\n")
"""


class Terminal:
    """A program with a terminal of its own, as a shell would start it."""

    def __init__(self, folder, *command):
        self._ours, theirs = pty.openpty()
        self.shown = ""
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no threads here
        )
        os.close(theirs)

    def await_text(self, text, count=1):
        deadline = time.monotonic() + 60
        while self.shown.count(text) < count:
            assert time.monotonic() < deadline, self.shown
            if select.select([self._ours], [], [], 1)[0]:
                self.shown += os.read(self._ours, 10_000).decode()

    def interrupt(self):
        """Press ^C, as a person does: again if nothing comes of it; and read on until the program has ended."""
        deadline, press_at = time.monotonic() + 60, 0.0
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.shown
            if time.monotonic() >= press_at:
                press_at = time.monotonic() + 5
                self.type("\x03")
            if select.select([self._ours], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):  # as a terminal says that nobody is there any more
                    self.shown += os.read(self._ours, 10_000).decode()
        return self.process.returncode

    def type(self, text):
        os.write(self._ours, text.encode())

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)


@pytest.fixture
def debug(folder, start, server, client):
    (folder / "looked.py").write_text(JOBS)
    command = [sys.executable, "-m", "pinlater.worker.program", "looked", "--debug", "--lease", "1"]
    terminal = Terminal(folder, *command, "--server", server.address)
    yield terminal
    terminal.end()


def test_a_job_is_looked_at_for_longer_than_its_limits_and_its_lease(debug, client, folder):
    job = put(client, "Looked", "sleeps")
    debug.await_text("(Pdb)")
    debug.type("import time; time.sleep(4)\n")  # beyond timeout, stall_after, kill_after and the lease
    debug.await_text("(Pdb)", 2)
    debug.type("self.answer = 42\n")
    debug.await_text("(Pdb)", 3)
    debug.type("continue\n")
    await_state(client, job, JobState.SUCCEEDED)
    assert ran(folder) == ["42 attempt 1"]
    debug.interrupt()
    assert "killed" not in debug.shown


def test_interrupting_ends_the_worker_before_any_job(debug):
    debug.await_text("1 process for queue sleeps")
    debug.interrupt()


def test_a_job_that_is_looked_at_goes_back_with_its_attempts(debug, client, folder):
    job = put(client, "Looked", "sleeps")
    debug.await_text("(Pdb)")
    debug.interrupt()
    info = await_state(client, job, JobState.PENDING)
    assert info.attempts_remaining == info.attempts_allowed
    assert ran(folder) == []


def test_without_a_terminal_it_says_so(folder, start):
    worker = start("--debug")
    assert worker.wait() == 78
    assert "standard input is none" in worker.log

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
from tests.system.worker_program import await_state, environment_with, put, ran, wait_for

JOBS = """
import hashlib
import signal
import time
from pathlib import Path
from pinlater import Job
from pinlater.worker.session.ack_buffer import AckBuffer


class Hashing(Job, queue="sleeps"):
    # Stays in C code, where no handler written in Python runs.
    def run(self, context):
        Path("ran.txt").write_text("hashing")
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)


class Deafening(Job, queue="sleeps"):
    def run(self, context):
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Answered(Job, queue="sleeps", attempts=1):
    # Its ack is sent at once, since it has run for long, and then its process is slow to go on.
    def run(self, context):
        flush = AckBuffer.flush

        def slow_flush(buffer):
            AckBuffer.flush = flush
            flush(buffer)
            while not Path("interrupted").exists():
                time.sleep(0.01)

        time.sleep(0.2)
        AckBuffer.flush = slow_flush
        breakpoint()


class Looked(Job, queue="sleeps", timeout=0.3, kill_after=1, stall_after=0.2, attempts=1):
    answer: int = 0

    def run(self, context):
        breakpoint()
        Path("ran.txt").write_text(f"{self.answer} attempt {context.attempt}\\n")
"""


class Terminal:
    """A program with a terminal of its own, as a shell would start it."""

    def __init__(self, folder, env, *command):
        self._ours, theirs = pty.openpty()
        self.shown = ""
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=env,
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
        """Press ^C once, and wait for the end."""
        self.type("\x03")
        self.await_end()

    def await_end(self):
        """Read on until the program has ended: one that cannot write would not end."""
        deadline = time.monotonic() + 60
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.shown
            if select.select([self._ours], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):  # as a terminal says that nobody is there any more
                    self.shown += os.read(self._ours, 10_000).decode()

    def type(self, text):
        os.write(self._ours, text.encode())

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)


@pytest.fixture
def debug(request, folder, start, server, client):
    (folder / "looked.py").write_text(JOBS)
    env = environment_with(folder, getattr(request, "param", ""))
    command = [sys.executable, "-m", "pinlater.worker.program", "looked", "--debug", "--lease", "2"]
    terminal = Terminal(folder, env, *command, "--server", server.address)
    yield terminal
    terminal.end()


never_killed = pytest.mark.parametrize(
    "debug",
    ["from pinlater_supervisor import Supervisor\nSupervisor.__init__.__kwdefaults__['quick_seconds'] = 600"],
    ids=["never killed"],
    indirect=True,
)
"""After an interrupt, an end that needs a kill does not come, and one that needs none comes on any machine."""


@never_killed
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


@never_killed
def test_interrupting_a_worker_that_has_just_acked_does_not_enter_the_debugger(debug, client, folder):
    job = put(client, "Answered", "sleeps")
    debug.await_text("(Pdb)")
    debug.type("continue\n")
    await_state(client, job, JobState.SUCCEEDED)
    debug.type("\x03")
    debug.await_text("stopping quickly")
    (folder / "interrupted").touch()
    debug.await_end()
    assert debug.shown.count("(Pdb)") == 1


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


def test_interrupting_ends_the_worker_whatever_its_job_does(debug, client, folder):
    job = put(client, "Hashing", "sleeps")
    wait_for(lambda: ran(folder) == ["hashing"])
    debug.interrupt()
    await_state(client, job, JobState.PENDING)


def test_interrupting_ends_the_worker_after_a_job_that_ignored_it(debug, client):
    await_state(client, put(client, "Deafening", "sleeps"), JobState.SUCCEEDED)
    debug.interrupt()


def test_without_a_terminal_it_says_so(folder, start):
    worker = start("--debug")
    assert worker.wait() == 78
    assert "--debug needs a terminal as standard input" in worker.log

"""Runs small programs that use the supervisor, with real processes and real signals.

A program reports what happens as lines on its standard output; tests wait for lines, never for a time.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pinlater_supervisor
import psutil
import pytest

PATIENCE_SECONDS = 60.0

PRELUDE = '''
import logging, os, select, signal, subprocess, sys, time
from pinlater_supervisor import Child, ChildExit, Pool, Supervisor
from pinlater_supervisor.process import ChildProcess

logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def wait(child):
    """Until a stop is asked for; looks again and again, since a signal just before the call would not end it."""
    while not select.select([child.wakeup_fd], [], [], 0.1)[0]:
        pass

def told(ended):
    say("exit", ended.pool, ended.slot, ended.pid, ended.in_words())

def worker(child):
    child.ready()
    say("ready", child.pool, child.slot, child.pid, child.generation)
    wait(child)
    say("drained", child.pool, child.slot, child.pid)

def shown(text):
    """Until the log has it."""
    while text not in open(os.path.join(os.path.dirname(sys.argv[0]), "stderr")).read():
        time.sleep(0.01)

def await_dumps_of(function):
    """Let the master wait until a child has written its stacks: on a busy machine, that may take longer than it has."""
    dump = ChildProcess.dump

    def dump_in_full(process):
        dump(process)
        shown(f"in {function.__name__}")

    ChildProcess.dump = dump_in_full

def supervise(*pools, **options):
    say("master", os.getpid())
    options.setdefault("on_exit", told)
    code = Supervisor(pools, name="test", **options).run()
    say("returned", code)
    sys.exit(code)
'''


class Program:
    """A running master, and the lines that it and its children have printed."""

    def __init__(self, text: str, folder: Path, environ: dict[str, str]) -> None:
        self._stderr = folder / "stderr"
        self.path = folder / "program.py"
        self.path.write_text(PRELUDE + textwrap.dedent(text))
        home = str(Path(pinlater_supervisor.__file__).parent.parent)
        with self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-u", str(self.path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, "PYTHONPATH": home, **environ},
                start_new_session=True,
            )
        self.pid = self._process.pid
        self.said: list[str] = []
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line.decode().rstrip("\n"))
        self._lines.put(None)

    @property
    def log(self) -> str:
        return self._stderr.read_text(errors="replace")

    def expect(self, beginning: str) -> list[str]:
        """Return the words of the next line with this beginning; lines before it are in `said`, too."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            with suppress(queue.Empty):
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
                if line is not None:
                    self.said.append(line)
                    if line.startswith(beginning):
                        return line.split()
                    continue
            pytest.fail(f"never said {beginning!r}\nsaid: {self.said}\nlog:\n{self.log}")

    def expect_all(self, *beginnings: str) -> None:
        """Wait until each was printed, in any order."""
        missing = set(beginnings)
        while missing:
            self.expect("")
            missing -= {beginning for beginning in missing if self.said[-1].startswith(beginning)}

    def expect_log(self, text: str, times: int = 1) -> None:
        until(lambda: self.log.count(text) >= times, f"{text!r} in the log")

    def expect_sleep(self) -> None:
        """Wait for half a second in which the master does not run at all: if it polls or spins, there is none."""
        process = psutil.Process(self.pid)

        def has_slept() -> bool:
            before = process.num_ctx_switches(), process.cpu_times()[:2]
            time.sleep(0.5)
            return (process.num_ctx_switches(), process.cpu_times()[:2]) == before

        until(has_slept, "a master that sleeps")

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for the end of the master; return its exit code."""
        code = self._process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        with suppress(queue.Empty):
            while (line := self._lines.get_nowait()) is not None:
                self.said.append(line)
        return code

    def stop(self) -> int:
        self.send(signal.SIGTERM)
        return self.wait()

    def survivors(self) -> list[int]:
        """Return the living processes of its session, the master included."""
        return [pid for pid in psutil.pids() if is_alive(pid) and _session(pid) == self.pid]

    def close(self) -> None:
        for pid in self.survivors():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(PATIENCE_SECONDS)
        self._process.stdout.close()


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until(fact: Callable[[], bool], what: str) -> None:
    """Wait for something that no line reports."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not fact():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


@pytest.fixture
def gone() -> Callable[[str | int], None]:
    """Return a function that waits until a process has ended."""
    return lambda pid: until(lambda: not is_alive(int(pid)), f"the end of process {pid}")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start a program; after the test, none of its processes may be left."""
    programs: list[Program] = []

    def start_one(text: str, **environ: str) -> Program:
        folder = tmp_path / str(len(programs))
        folder.mkdir()
        programs.append(Program(text, folder, environ))
        return programs[-1]

    yield start_one
    left = [pid for program in programs if program._process.poll() is not None for pid in program.survivors()]
    running = [program for program in programs if program._process.poll() is None]
    for program in programs:
        program.close()
    assert not left, "processes outlived their master"
    assert not running, "the test ended before its master"

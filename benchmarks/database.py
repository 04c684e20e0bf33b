"""A database server as our own process: it can be killed, paused, and started again on the data it left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

from benchmarks.programs import ProgramFailed

START_SECONDS = 60.0

_FIRST = -15
"""Niceness of a database that has the processor first."""


class Database:
    """A database server, started on construction.

    Args:
        command: command that starts it.
        log: file for its output.
        is_answering: returns whether it accepts connections.
    """

    def __init__(self, command: Sequence[str], log: Path, is_answering: Callable[[], bool]) -> None:
        self._command = command
        self._log = log
        self._is_answering = is_answering
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it answers.

        Raises:
            ProgramFailed: it does not answer.
        """
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + START_SECONDS
        while not self._is_answering():
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.kill()
                words = self._log.read_text(errors="replace")[-500:]
                raise ProgramFailed(f"{self._command[0]} did not start: {words}")
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    def kill(self) -> None:
        """Kill the server, like a crash."""
        self._process.kill()
        self._process.wait()

    @contextlib.contextmanager
    def first(self) -> Iterator[None]:
        """Give the processor to the server before all other programs, nearly as if it had a machine of its own.

        Raises:
            PermissionError: only root may do that.
        """
        self._set_niceness(_FIRST)
        try:
            yield
        finally:
            self._set_niceness(0)

    def _set_niceness(self, niceness: int) -> None:
        for thread in psutil.Process(self.pid).threads():  # those that it starts later inherit it
            os.setpriority(os.PRIO_PROCESS, thread.id, niceness)
        with contextlib.suppress(FileNotFoundError):  # where sessions have a share each, only this niceness counts
            Path(f"/proc/{self.pid}/autogroup").write_text(str(niceness))

    def hold(self) -> None:
        """Pause the server: it keeps its connections, but does not answer."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Undo ``hold``."""
        self._process.send_signal(signal.SIGCONT)

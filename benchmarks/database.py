"""The server of a database as a process of ours: it can be killed, held up, and started again on what it left."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.programs import ProgramFailed

START_SECONDS = 60.0


class Database:
    """A server; starts at once.

    Args:
        command: how it is started.
        log: where its words go.
        is_answering: says whether it takes connections.
    """

    def __init__(self, command: Sequence[str], log: Path, is_answering: Callable[[], bool]) -> None:
        self._command = command
        self._log = log
        self._is_answering = is_answering
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            ProgramFailed: it does not.
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
        """Its process id."""
        return self._process.pid

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait()

    def hold(self) -> None:
        """Let it keep its connections, and say nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Undo ``hold``."""
        self._process.send_signal(signal.SIGCONT)

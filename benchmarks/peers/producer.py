"""A producer in a separate process, which waits for a signal before it begins."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from benchmarks.programs import ProgramFailed


class Produced(NamedTuple):
    """What a producer did.

    Attributes:
        first: number of its first measured job.
        calls: beginning and length of each call, in nanoseconds.
        producer_us: processor time of the producer, in microseconds.
        server_us: processor time of the server meanwhile, including other producers' calls.
    """

    first: int
    calls: list[tuple[int, int]]
    producer_us: float
    server_us: float


class Producer:
    """A process of ``produce.py``.

    Args:
        command: command that starts it.
        environ: environment of the process.
        log: file for its stderr.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True, env=dict(environ)
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # it has printed everything, or failed
        self._process.communicate()

    def wait_until_ready(self) -> None:
        """Wait for its first job, which is not measured."""
        self._line()

    def begin(self) -> None:
        """Tell it to enqueue."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def found(self) -> Any:
        """Wait until it is done; return what it has measured."""
        return json.loads(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            words = self._log.read_text(errors="replace")[-2000:]
            raise ProgramFailed(f"a producer failed; its last words:\n{words}")
        return line

"""Activity of processes: processor time, wake-ups and system calls."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.programs import ProgramFailed

_VOLUNTARY = re.compile(r"^voluntary_ctxt_switches:\s+(\d+)$", re.MULTILINE)
_COUNTED = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.MULTILINE)


class Activity(NamedTuple):
    """Activity of all threads of a process since its start: processor time and wake-ups."""

    cpu_us: float
    wake_ups: int

    def since(self, before: Activity) -> Activity:
        """Return the difference to an earlier reading."""
        return Activity(self.cpu_us - before.cpu_us, self.wake_ups - before.wake_ups)


def activity_of(pid: int) -> Activity:
    """Read from the kernel the processor time of a process, to the nanosecond, and how often its threads waited."""
    cpu_ns = wake_ups = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # the thread has ended
            found = _VOLUNTARY.search((task / "status").read_text())
            wake_ups += int(found[1]) if found else 0
            cpu_ns += int((task / "schedstat").read_text().split()[0])
    return Activity(cpu_ns / 1000, wake_ups)


def can_count_calls() -> bool:
    """Return whether strace is installed and may attach to processes; nothing else counts system calls."""
    if shutil.which("strace") is None:
        return False
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            with system_calls([process.pid]):
                return True
        except ProgramFailed:
            return False
        finally:
            process.kill()


@contextmanager
def system_calls(pids: Sequence[int]) -> Iterator[list[dict[str, int]]]:
    """Count the system calls of processes within the block; the list is filled at its end, in the order of ``pids``."""
    found: list[dict[str, int]] = []
    with tempfile.TemporaryDirectory(prefix="pinlater-strace-") as folder:
        files = [Path(folder, str(pid)) for pid in pids]
        tracers: list[subprocess.Popen[str]] = []
        try:
            for pid, file in zip(pids, files, strict=True):
                tracers.append(_trace(pid, file))
            yield found
        finally:
            for tracer in tracers:
                tracer.send_signal(signal.SIGINT)
            for tracer in tracers:
                tracer.communicate()
        found += [{name: int(calls) for calls, name in _COUNTED.findall(_table(file))} for file in files]


def _trace(pid: int, file: Path) -> subprocess.Popen[str]:
    command = ["strace", "-f", "-c", "-U", "time-percent,time-total,avg-time,calls,errors,name", "-p", str(pid)]
    tracer = subprocess.Popen([*command, "-o", str(file)], stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    if "attached" not in (said := tracer.stderr.readline()):
        tracer.communicate()
        raise ProgramFailed(f"strace cannot attach: {said}")
    return tracer


def _table(file: Path) -> str:
    return "\n".join(line for line in file.read_text().splitlines() if not line.endswith(" total"))

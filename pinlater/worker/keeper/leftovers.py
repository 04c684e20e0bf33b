"""What jobs have started, when the worker was killed the hard way: the kernel kills its processes, but not theirs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress

MARK = "PINLATER_WORKER"
"""Environment variable of job processes, which programs that they start inherit: the id of their worker."""


def mark_environment(worker: str) -> None:
    """Mark what this process will start."""
    os.environ[MARK] = worker


def end_leftovers(worker: str, pids: Iterable[int]) -> None:
    """Kill what the job processes of a worker have left: in their process groups, and what carries its mark.

    Args:
        worker: its id.
        pids: of its job processes, which are dead or dying.
    """
    for pid in pids:
        with suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
    import psutil  # in most lives it is never needed

    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == worker:
                process.kill()

"""Kills processes that jobs started, after the master was killed: the kernel kills only the worker's own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress

MARK = "PINLATER_WORKER"
"""Environment variable with the worker's id, inherited by programs that job processes start."""


def mark_environment(worker: str) -> None:
    """Set the variable for programs that this process will start."""
    os.environ[MARK] = worker


def end_leftovers(worker: str, pids: Iterable[int]) -> None:
    """Kill leftovers of a worker's job processes: their process groups, and processes with its mark.

    Args:
        worker: id of the worker.
        pids: process ids of its job processes, which are dead or dying.
    """
    for pid in pids:
        with suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
    import psutil  # rarely needed

    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == worker:
                process.kill()

"""The accident: the process that runs the index is killed when it is half done."""

import os
import re
import signal
from typing import NamedTuple

import psutil

from jobs_example.demo.work import IndexStatus, Work, index_status
from pinlater import JobState


class Accident(NamedTuple):
    """What was done to whom.

    Attributes:
        pid: the process that was killed.
        cursor: number of files at the last checkpoint it could save.
    """

    pid: int
    cursor: int


def running_pid(status: IndexStatus) -> int | None:
    """Return the process that runs the index, which is part of the claim; None if none does."""
    source = re.search(r":worker:[^:]*:(\d+):", status.info.claim or "")
    return int(source[1]) if source and status.info.state is JobState.IN_PROGRESS else None


def kill_when_half_done(work: Work, files: int, worker_pid: int) -> Accident | None:
    """Kill the index's process once half of the ``files`` are done; return None while it is too early."""
    status = index_status(work)
    pid = running_pid(status)
    if pid is None or status.cursor < files // 2 or not _belongs_to(worker_pid, pid):
        return None
    os.kill(pid, signal.SIGKILL)
    return Accident(pid, index_status(work).cursor)


def _belongs_to(worker_pid: int, pid: int) -> bool:
    """Tell whether ``pid`` is a process of our worker; nobody else's is ever killed."""
    try:
        return any(parent.pid == worker_pid for parent in psutil.Process(pid).parents())
    except psutil.NoSuchProcess:
        return False

"""Kill the process that builds the index when the index is half done."""

import os
import re
import signal
from typing import NamedTuple

import psutil

from jobs_example.demo.work import IndexStatus, Work, index_status
from pinlater import JobState


class Crash(NamedTuple):
    """The process that was killed.

    Attributes:
        pid: its process id.
        cursor: number of indexed files at its last checkpoint.
    """

    pid: int
    cursor: int


def running_pid(status: IndexStatus) -> int | None:
    """Return the id of the process that builds the index, which the claim names; None if there is none."""
    source = re.search(r":worker:[^:]*:(\d+):", status.info.claim or "")
    return int(source[1]) if source and status.info.state is JobState.IN_PROGRESS else None


def kill_when_half_done(work: Work, files: int, worker_pid: int) -> Crash | None:
    """Kill the process that builds the index once half of the files are done; return None while it is too early.

    Args:
        work: the enqueued jobs.
        files: number of files to index.
        worker_pid: process id of the worker's master.
    """
    status = index_status(work)
    pid = running_pid(status)
    if pid is None or status.cursor < files // 2 or not _belongs_to(worker_pid, pid):
        return None
    os.kill(pid, signal.SIGKILL)
    return Crash(pid, index_status(work).cursor)


def _belongs_to(worker_pid: int, pid: int) -> bool:
    """Whether ``pid`` is a process of our worker; no other process is ever killed."""
    try:
        return any(parent.pid == worker_pid for parent in psutil.Process(pid).parents())
    except psutil.NoSuchProcess:
        return False

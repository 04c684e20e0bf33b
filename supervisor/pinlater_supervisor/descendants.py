"""Kills the descendants of children: none may outlive the supervisor.

Most are in the process group of their child and die with it. The rest created their own groups, as
`subprocess.Popen(start_new_session=True)` does.
"""

from __future__ import annotations

import os
from collections.abc import Container
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil


def kill_descendants(pid: int) -> None:
    """Kill all descendants of a living process, but not the process itself."""
    for process in _descendants(pid):
        _kill(process)


def children() -> set[int]:
    """Return the pids of this process's children, zombies included."""
    if not _have_children():
        return set()
    return {process.pid for process in _descendants(os.getpid(), recursive=False)}


def kill_orphans(spared: Container[int]) -> None:
    """Kill and reap all children of this process except `spared`, then the orphans they leave, until none is left."""
    while _have_children():
        found = [process for process in _descendants(os.getpid(), recursive=False) if process.pid not in spared]
        if not found:
            return
        for process in found:
            _kill(process)
            with suppress(ChildProcessError):
                os.waitpid(process.pid, 0)


def _have_children() -> bool:
    # One system call, where psutil would read all of /proc.
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _descendants(pid: int, *, recursive: bool = True) -> list[psutil.Process]:
    # Imported late, because most runs never need it.
    import psutil

    try:
        return psutil.Process(pid).children(recursive=recursive)
    except psutil.NoSuchProcess:
        return []


def _kill(process: psutil.Process) -> None:
    import psutil

    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        process.kill()

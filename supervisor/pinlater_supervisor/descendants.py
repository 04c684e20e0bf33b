"""What children have started themselves: nothing of it may outlive the supervisor.

Most of it is in the process group of its child and dies with it. The rest made groups of its own, as
`subprocess.Popen(start_new_session=True)` does.
"""

from __future__ import annotations

import os
from collections.abc import Container
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil


def kill_below(pid: int) -> None:
    """Kill all that a living process has started, directly or not, but not the process itself."""
    for process in _below(pid):
        _kill(process)


def children() -> set[int]:
    """Pids of our own children, dead ones that nobody waited for included."""
    if not _have_children():
        return set()
    return {process.pid for process in _below(os.getpid(), recursive=False)}


def sweep(spared: Container[int]) -> None:
    """Kill and reap all children of this process except `spared`, until no orphan of theirs is left."""
    while _have_children():
        found = [process for process in _below(os.getpid(), recursive=False) if process.pid not in spared]
        if not found:
            return
        for process in found:
            _kill(process)
            with suppress(ChildProcessError):
                os.waitpid(process.pid, 0)


def _have_children() -> bool:
    # Asks the kernel one question, where psutil reads all of /proc.
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _below(pid: int, *, recursive: bool = True) -> list[psutil.Process]:
    # Imported where it is needed, which in most runs is never.
    import psutil

    try:
        return psutil.Process(pid).children(recursive=recursive)
    except psutil.NoSuchProcess:
        return []


def _kill(process: psutil.Process) -> None:
    import psutil

    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        process.kill()

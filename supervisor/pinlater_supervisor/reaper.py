"""Reaps children that ended, without losing one or signaling a reused pid."""

from __future__ import annotations

import os
import signal
from collections.abc import Container, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resource import struct_rusage


def reap(ours: Container[int]) -> Iterator[tuple[int, int, struct_rusage]]:
    """Reap all children that have ended; yield pid, wait status and resource usage of each.

    What is left in the process group of a child of ours is killed. Unknown pids are reaped and
    yielded, too: as process 1 of a container the master inherits every orphan.
    """
    while (pid := _next_dead()) is not None:
        if pid in ours:
            # Before it is reaped, so that its pid, which is the number of the group, cannot be in use again yet.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        yield os.wait4(pid, 0)


def _next_dead() -> int | None:
    try:
        dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return dead.si_pid if dead else None

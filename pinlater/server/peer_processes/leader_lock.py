"""Elect one of several server processes for work that must run only once."""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

_RETRY_SECONDS = 1.0


async def run_as_leader(lock: Path, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run ``work`` once no other process runs it; take over from a process that ends, however it ends.

    Args:
        lock: a file private to the processes; whoever holds its lock is the leader.
        work: runs until cancelled.
    """
    with lock.open("w") as file:
        while not _acquired(file.fileno()):  # noqa: ASYNC110 - it is another process that ends
            await asyncio.sleep(_RETRY_SECONDS)
        await work()


def _acquired(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

"""Work that one of several server processes does, so that it is done once."""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

_LOOK_SECONDS = 1.0


async def when_on_duty(lock: Path, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do ``work`` as long as no other process does; take over from one that ends, however it ends.

    Args:
        lock: a file of the processes' own; whoever holds its lock is on duty.
        work: runs until it is cancelled.
    """
    with lock.open("w") as file:
        while not _took(file.fileno()):  # noqa: ASYNC110 - it is another process that ends
            await asyncio.sleep(_LOOK_SECONDS)
        await work()


def _took(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

"""Send heartbeats to the supervisor, and wait until it asks this process to stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from pinlater_supervisor import Child

_BEAT_SECONDS = 1.0


@contextlib.asynccontextmanager
async def heartbeats(child: Child) -> AsyncIterator[None]:
    """Send heartbeats from the event loop that does the work, so that the supervisor notices when it hangs."""
    beating = asyncio.create_task(_beat(child))
    try:
        yield
    finally:
        beating.cancel()


async def _beat(child: Child) -> None:
    while True:
        child.beat()
        await asyncio.sleep(_BEAT_SECONDS)


async def until_stopped(child: Child) -> None:
    """Send heartbeats until the supervisor asks this process to stop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    # Always removed afterwards: uvloop waits for watched files when it is closed.
    loop.add_reader(child.wakeup_fd, stop.set)
    try:
        async with heartbeats(child):
            await stop.wait()
    finally:
        loop.remove_reader(child.wakeup_fd)

"""Send heartbeats to the supervisor until it asks this process to stop."""

from __future__ import annotations

import asyncio
import contextlib

from pinlater_supervisor import Child


async def until_stopped(child: Child) -> None:
    """Send heartbeats from the event loop that does the work, so that the supervisor notices when it hangs."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    # Always removed afterwards: uvloop waits for watched files when it is closed.
    loop.add_reader(child.wakeup_fd, stop.set)
    try:
        while not stop.is_set():
            child.beat()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await stop.wait()
    finally:
        loop.remove_reader(child.wakeup_fd)

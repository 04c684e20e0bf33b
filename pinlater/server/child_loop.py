"""The main loop of a server process: it sends heartbeats to the supervisor until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib

from pinlater_supervisor import Child


async def until_stopped(child: Child) -> None:
    """Show life from the loop that does the work, so that the supervisor notices when it hangs."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    # Removed afterwards, however it ends: uvloop waits for what is watched when it is closed.
    loop.add_reader(child.wakeup_fd, stop.set)
    try:
        while not stop.is_set():
            child.beat()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await stop.wait()
    finally:
        loop.remove_reader(child.wakeup_fd)

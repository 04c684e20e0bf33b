"""Waiting for conditions in coroutines."""

import asyncio


async def until(condition, seconds=60):
    """Wait until a condition holds; fail if that takes too long."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)

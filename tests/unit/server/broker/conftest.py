"""A bench with a broker."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.unit.server.broker.broker_bench import Bench


@pytest.fixture
def on_bench(tmp_path):
    """Run a coroutine function with a bench that has the queues q and r."""

    def run(scenario: Callable[[Bench], Awaitable[None]]) -> None:
        async def whole():
            bench = Bench(tmp_path)
            try:
                for queue in ("q", "r"):
                    await bench.backend.create_queue(queue)
                async with asyncio.timeout(20):
                    await scenario(bench)
            finally:
                await bench.backend.close()

        asyncio.run(whole())

    return run

"""Expensive work runs one at a time; few callers wait, the others are refused."""

import asyncio

import pytest

from pinlater.errors import NoHealthyShards
from pinlater.server.api.concurrency_limit import ConcurrencyLimit


def test_one_at_a_time_in_the_order_of_arrival():
    async def main():
        limit, inside, order = ConcurrencyLimit("it", 10), [], []

        async def visit(number):
            async with limit.slot():
                inside.append(number)
                assert inside == [number]
                order.append(number)
                await asyncio.sleep(0)
                inside.remove(number)

        await asyncio.gather(*map(visit, range(10)))
        assert order == list(range(10))

    asyncio.run(main())


def test_beyond_those_that_may_wait_nobody_does():
    async def main():
        limit, done = ConcurrencyLimit("a check", 2), asyncio.Event()

        async def visit():
            async with limit.slot():
                await done.wait()

        visits = [asyncio.create_task(visit()) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(NoHealthyShards, match="wait for a check"):
            await visit()
        visits[1].cancel()  # who goes makes room
        await asyncio.wait([visits[1]])
        visits[1] = asyncio.create_task(visit())
        await asyncio.sleep(0)
        done.set()
        await asyncio.gather(*visits)
        await visit()

    asyncio.run(main())

"""Jobs for processes that run several on an event loop."""

import asyncio
import os
import time
from pathlib import Path

from trail import write

from pinlater import Constant, Job, timed


class Meet(Job, queue="sleeps"):
    others: int

    async def run(self, context):
        write("there")
        while Path("ran.txt").read_text().count("there") < self.others:
            await asyncio.sleep(0.05)


class Blocks(Job, queue="holds", attempts=1):
    async def run(self, context):
        while not Path("logged").exists():
            time.sleep(0.01)
        time.sleep(1.5)  # longer than until it was logged


class Count(Job, queue="counts", heartbeat=0, attempts=2):
    to: int
    cursor: int = 0

    async def run(self, context):
        write(f"count from {self.cursor}")
        while self.cursor < self.to:
            await asyncio.sleep(0.01)
            self.cursor += 1
            context.checkpoint()


class Touch(Job, queue="touch"):
    number: int

    async def run(self, context):
        write(f"touch {self.number} {os.getpid()}")


class Stepping(Job, queue="steps"):
    async def run(self, context):
        results = await asyncio.gather(*(context.step(f"s{n}", slow, n) for n in range(5)))
        write(f"steps {results}")


async def slow(n):
    await asyncio.sleep(0.05)
    return n * n


class Overdue(Job, queue="overdue", attempts=2, backoff=Constant(0.1), timeout=0.3):
    async def run(self, context):
        await asyncio.sleep(60)


class Stalls(Job, queue="overdue", attempts=2, backoff=Constant(0.1), stall_after=0.3):
    async def run(self, context):
        context.checkpoint()
        await asyncio.sleep(60)


class Trip(Job, queue="trips", attempts=2, backoff=Constant(0.1)):
    async def run(self, context):
        async with context.saga() as saga:
            saga.step("book", int, 7, undo=cancel)
            await context.step("slow", timed(asyncio.sleep, timeout=0.1), 60)


async def cancel(number):
    write(f"cancelled {number}")

"""Jobs for processes that run several in threads."""

import asyncio
import os
import resource
import signal
import time
from pathlib import Path

from trail import write

from pinlater import Constant, Job, timed

SOON = Constant(0.1)


class Meet(Job, queue="sleeps"):
    "Ends when as many as that are there at once."

    others: int

    def run(self, context):
        write(f"there {os.getpid()}")
        while sum(line.startswith("there") for line in Path("ran.txt").read_text().splitlines()) < self.others:
            time.sleep(0.01)
        write(f"met {context.descriptor}")


class Wait(Job, queue="holds", attempts=5, backoff=SOON):
    name: str

    def run(self, context):
        write(f"begin {self.name} {context.attempt} {os.getpid()}")
        if self.name == "kills" and context.attempt == 1:
            wait_for_lines(5)
            os.kill(os.getpid(), signal.SIGKILL)
        while not Path("go on").exists():
            time.sleep(0.01)
        write(f"end {self.name} {context.attempt}")


def wait_for_lines(count):
    while len(Path("ran.txt").read_text().splitlines()) < count:
        time.sleep(0.01)


class Count(Job, queue="counts", heartbeat=0, attempts=2):
    to: int
    cursor: int = 0

    def run(self, context):
        write(f"count from {self.cursor}")
        while self.cursor < self.to:
            time.sleep(0.01)
            self.cursor += 1
            context.checkpoint()


class Touch(Job, queue="touch"):
    number: int

    def run(self, context):
        write(f"touch {self.number} {os.getpid()}")


class Hoards(Job, queue="holds"):
    def run(self, context):
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        while True:
            os.open("/dev/null", os.O_RDONLY)


class Overdue(Job, queue="overdue", attempts=2, backoff=SOON, timeout=0.3):
    def run(self, context):
        while True:
            time.sleep(0.01)


class Heedless(Job, queue="overdue", attempts=2, backoff=SOON, timeout=0.3, kill_after=1):
    def run(self, context):
        time.sleep(60)


class Stalls(Job, queue="overdue", attempts=2, backoff=SOON, stall_after=0.3):
    def run(self, context):
        context.checkpoint()
        while True:
            time.sleep(0.01)


class OverdueLater(Job, queue="overdue", attempts=2, backoff=SOON, timeout=0.3):
    async def run(self, context):
        await asyncio.sleep(60)


class Trip(Job, queue="trips", attempts=2, backoff=SOON):
    def run(self, context):
        with context.saga() as saga:
            saga.step("book", int, 7, undo=cancel)
            context.step("slow", timed(spin, timeout=0.1))


def cancel(number):
    write(f"cancelled {number}")


def spin():
    while True:
        time.sleep(0.01)

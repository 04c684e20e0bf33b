"""Jobs whose steps return much."""

import asyncio
import os
import random
import signal
import threading

from trail import write

from pinlater import Constant, Job
from pinlater.worker.session.solo_saver import SoloSaver

STEPS = 60


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class Heavy(Job[int], queue="steps", attempts=4, backoff=Constant(0.02)):
    name: str
    seed: int
    run_number: int = 0

    def run(self, context):
        Doom(self, context)
        total = 0
        for number in range(STEPS):
            total += len(context.step("load", load, self.name, self.run_number, number))
            write(f"{self.name} {self.run_number} saved {number}")
        Doom.now = None
        if self.run_number == 0:
            self.run_number = 1
            context.reschedule(after=0)
        return total


class HeavyLater(Heavy, queue="steps"):
    async def run(self, context):
        Doom(self, context)
        room = asyncio.Semaphore(3)

        async def one(number):
            async with room:
                text = await context.step("load", load_later, self.name, self.run_number, number)
                write(f"{self.name} {self.run_number} saved {number}")
                return len(text)

        total = sum(await asyncio.gather(*map(one, range(STEPS))))
        Doom.now = None
        if self.run_number == 0:
            self.run_number = 1
            context.reschedule(after=0)
        return total


class Doom:
    saves, when, now = -1, "", None

    def __init__(self, job, context):
        chance = random.Random(f"{job.seed} {context.attempt}")
        Doom.saves, Doom.now = -1, None
        if context.attempt <= 2 and job.run_number == 0:
            Doom.saves = chance.randrange(2 * STEPS)  # half of them: at another moment
            Doom.when = chance.choice(["before", "after"])
            if Doom.saves >= STEPS:
                Doom.now = now = object()
                timer = threading.Timer(chance.uniform(0, 0.2), lambda: Doom.now is now and die())
                timer.daemon = True
                timer.start()


def deadly(method):
    real = getattr(SoloSaver, method)

    def call(self, *arguments, **named):
        Doom.saves -= 1
        if Doom.saves == 0 and Doom.when == "before":
            die()
        result = real(self, *arguments, **named)
        if Doom.saves == 0:
            die()
        return result

    setattr(SoloSaver, method, call)


deadly("save")


def load(name, run, number):
    write(f"{name} {run} begin {number}")
    return "x" * (1000 + number)


async def load_later(name, run, number):
    await asyncio.sleep(0)
    return load(name, run, number)

"""Workflows."""

import os
import signal
import time
from functools import partial

from trail import write

from pinlater import Constant, Job

SOON = Constant(0.05)


def die_at(places, place):
    if places and places[0] == place:
        write(f"killed {place}")
        os.kill(os.getpid(), signal.SIGKILL)


class Flow(Job, queue="steps", backoff=SOON):
    name: str
    kills: list[str]  # one an attempt

    def run(self, context):
        kills = self.kills[context.attempt - 1 :]
        total = 0
        for number in (1, 2, 3):
            die_at(kills, f"before {number}")
            total = context.step(f"add {number}", partial(self.add, kills), total, number)
        die_at(kills, "after 3")
        write(f"{self.name} result {total}")

    def add(self, kills, total, number):
        write(f"{self.name} begin {number}")
        die_at(kills, f"in {number}")
        write(f"{self.name} end {number}")
        return total + number


class FlowLater(Flow, queue="steps"):
    async def run(self, context):
        super().run(context)


class Walk(Job, queue="counts", backoff=SOON, heartbeat=0):
    name: str
    kill: int
    cursor: int = 0

    def run(self, context):
        for item in context.iterate(range(5)):
            write(f"{self.name} {item}")
            if item == self.kill and context.attempt == 1:
                os.kill(os.getpid(), signal.SIGKILL)


class Stroll(Job, queue="counts", backoff=SOON, heartbeat=0.2):
    cursor: int = 0

    def run(self, context):
        for item in context.iterate(range(60)):
            write(f"stroll {item}")
            time.sleep(0.02)
            if item == 50 and context.attempt == 1:
                os.kill(os.getpid(), signal.SIGKILL)


class Nap(Job, queue="sleeps", backoff=SOON):
    name: str
    kills: list[str]

    def run(self, context):
        kills = self.kills[context.attempt - 1 :]
        write(f"{self.name} run")
        die_at(kills, "before")
        context.sleep_for(1, name="nap")
        die_at(kills, "after")
        write(f"{self.name} up")


class Trip(Job, queue="steps", backoff=SOON, attempts=3):
    name: str
    kill: str

    def run(self, context):
        with context.saga() as saga:
            for what in ("flight", "hotel"):
                saga.step(f"book {what}", self.do, f"book {what}", undo=self.undo)
            self.die_at(f"pay {context.attempt}")
            saga.step("pay", self.pay)
        write(f"{self.name} has paid")

    def do(self, what):
        self.die_at(what)
        write(f"{self.name} {what}")
        return what

    def undo(self, what):
        self.do(f"undo {what}")

    def pay(self):
        if self.kill == "pay always":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError("no money")

    def die_at(self, place):
        if place == self.kill and not os.path.exists(f"{self.name} was killed"):
            open(f"{self.name} was killed", "x").close()
            os.kill(os.getpid(), signal.SIGKILL)


class TripLater(Trip, queue="steps"):
    async def run(self, context):
        async with context.saga() as saga:
            for what in ("flight", "hotel"):
                await saga.step(f"book {what}", self.do_later, f"book {what}", undo=self.undo_later)
            self.die_at(f"pay {context.attempt}")
            saga.step("pay", self.pay)

    async def do_later(self, what):
        return self.do(what)

    async def undo_later(self, what):
        self.undo(what)

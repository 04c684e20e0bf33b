"""Jobs that call others, and wait for events; some die at a given place."""

import asyncio
import os
import signal
import time

from trail import write

from pinlater import Client, Constant, Discard, Job
from pinlater.errors import EventTimeout
from pinlater.worker.session.ack_buffer import AckBuffer
from pinlater.worker.session.solo_saver import SoloSaver

SOON = Constant(0.02)
doomed = {"name": "", "place": "", "now": ""}


def die_at(place):
    if doomed["place"] == f"{doomed['now']}: {place}" and not os.path.exists(f"{doomed['name']}.dead"):
        open(f"{doomed['name']}.dead", "w").close()
        write(f"{doomed['name']} killed at {doomed['place']}")
        os.kill(os.getpid(), signal.SIGKILL)


def deadly(owner, method):
    real = getattr(owner, method)

    def call(self, *arguments, **named):
        die_at(f"before {method}")
        result = real(self, *arguments, **named)
        die_at(f"after {method}")
        return result

    setattr(owner, method, call)


for method in ("enqueue", "read_messages", "save"):
    deadly(SoloSaver, method)
for method in ("release", "succeeded", "failed"):
    deadly(AckBuffer, method)


class Child(Job[int], queue="touch", backoff=SOON, key="shard_key"):
    name: str
    number: int

    @property
    def shard_key(self):
        return f"{self.name} {self.number}"

    def run(self, context):
        doomed.update(place="")
        write(f"{self.name} child {self.number}")
        return self.number * 10


class Talk(Job[str], queue="steps", backoff=SOON):
    name: str
    kill: str = ""  # where, once

    def run(self, context):
        doomed.update(name=self.name, place=self.kill)
        doomed["now"] = "call"
        sizes = context.call_all([Child(name=self.name, number=n) for n in (1, 2, 3)], name="child", batch_size=2)
        doomed["now"] = "wait"
        word = context.wait_for("word", str)
        doomed["now"] = "timeout"
        try:
            context.wait_for("nothing", timeout=0.05)
        except EventTimeout:
            late = "nothing came"
        doomed["now"] = "nap"
        context.sleep_for(0.05, name="nap")
        doomed["now"] = "end"
        write(f"{self.name} at its end")
        return f"{sizes} {word} {late}"


class TalkLater(Talk, queue="steps"):
    async def run(self, context):
        async def child(number):
            return context.call(Child(name=self.name, number=number), name=f"child {number}")

        async def word():
            return context.wait_for("word", str)

        *sizes, found = await asyncio.gather(child(1), child(2), child(3), word())
        return f"{sizes} {found} nothing came"


class Trip(Talk, queue="steps"):
    def run(self, context):
        doomed.update(name=self.name, place=self.kill, now="saga")
        with context.saga() as saga:
            saga.step("book", book, self.name, undo=unbook)
            doomed["now"] = "call in saga"
            context.call(Child(name=self.name, number=1))
            raise Discard("no seats")


class Journey(Talk, queue="steps"):
    lingers: bool = False

    def run(self, context):
        doomed.update(name=self.name, place=self.kill, now="saga")
        with context.saga() as saga:
            saga.step("book", book, self.name, undo=unbook)
            saga.step("pay", pay, self.name, undo=pay_back)
            doomed["now"] = "wait"
            write(f"{self.name} waits")
            while self.lingers:
                context.checkpoint(flush=True)
                time.sleep(0.02)
            context.wait_for("nothing")
            write(f"{self.name} goes on")


class Endless(Talk, queue="steps"):
    runs: int = 0

    def run(self, context):
        doomed.update(name=self.name, place=self.kill, now=f"run {self.runs}")
        context.call(Child(name=self.name, number=self.runs), name="one")
        context.call_all([Child(name=self.name, number=self.runs)] * 3, name="more")
        self.runs += 1
        if self.runs < 4:
            context.reschedule(after=0)


class Regret(Job[int], queue="steps"):
    name: str
    server: str

    def run(self, context):
        with Client(self.server) as client:
            client.handle(context.descriptor).cancel("not needed")
        try:
            return context.call(Child(name=self.name, number=1))
        except BaseException as error:
            write(f"{self.name} {type(error).__name__}")
            raise


def book(name):
    write(f"{name} booked")
    return name


def unbook(name):
    doomed["now"] = "undo"  # not before: what an earlier step has left to be saved may be saved by now
    write(f"{name} undone")


def pay(name):
    write(f"{name} paid")
    return name


def pay_back(name):
    doomed["now"] = "undo"
    die_at("in it")
    write(f"{name} paid back")

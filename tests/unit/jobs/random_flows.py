"""Workflows made at random, of which a test knows what may become of them.

A plan is a list of operations ``[kind, name, ...]``; the names in a plan are all different.
"""

import asyncio
from contextlib import suppress

from pinlater import Constant, Discard, EventTimeout, Job, JobFailed, retrying
from tests.unit.jobs.bookings import book, book_async, cancel, cancel_async

SOON = Constant(0)


class Child(Job[str], queue="flows", attempts=3, backoff=SOON, give_up_on=(OSError,)):
    name: str

    def run(self, context):
        return context.step("work", book, self.name)


class Flow(Job, queue="flows", attempts=9, backoff=SOON):
    plan: list

    def run(self, context):
        with suppress(StopIteration):
            Running(context, is_async=False).plan(self.plan).send(None)


class AsyncFlow(Flow, queue="flows"):
    async def run(self, context):
        await Running(context, is_async=True).plan(self.plan)


class Running:
    """One run of a plan."""

    def __init__(self, context, *, is_async):
        self.context, self.is_async = context, is_async

    async def plan(self, plan):
        for kind, name, *rest in plan:
            await getattr(self, kind)(name, *rest)

    async def step(self, name, what=None, *, within=None, attempts=None, **options):
        function = book_async if self.is_async else book
        if attempts is not None:
            function = retrying(function, attempts=attempts, backoff=SOON)
        ran = (within or self.context).step(name, function, what or name, **options)
        return await ran if self.is_async else ran

    async def retried(self, name):
        await self.step(name, attempts=3)

    async def caught(self, name, attempts):
        with suppress(OSError):
            await self.step(name, f"bad {name}", attempts=attempts)

    async def sleep(self, name, seconds):
        self.context.sleep_for(seconds, name=name)

    async def wait(self, name):
        with suppress(EventTimeout):
            self.context.wait_for(name, timeout=0)

    async def call(self, name):
        self.context.call(Child(name=name), name=name)

    async def lost_call(self, name):
        with suppress(JobFailed):
            self.context.call(Child(name=f"bad {name}"), name=name)

    async def saga(self, name, plan, *, gives_up):
        if self.is_async:
            async with self.context.saga() as saga:
                await self.booked(saga, name, plan, gives_up=gives_up)
        else:
            with self.context.saga() as saga:
                await self.booked(saga, name, plan, gives_up=gives_up)

    async def booked(self, saga, name, plan, *, gives_up):
        undo = cancel_async if self.is_async else cancel
        await self.step(f"{name} first", within=saga, undo=undo)
        with suppress(OSError):
            await self.step(f"{name} full", f"bad {name}", within=saga, undo=undo)
        await self.plan(plan)
        await self.step(f"{name} last", within=saga, undo=undo)
        if gives_up:
            raise Discard("no money")

    async def closed_saga(self, name, plan):
        await self.saga(name, plan, gives_up=False)

    async def open_saga(self, name, plan):
        await self.saga(name, plan, gives_up=True)

    async def beside(self, name, plans):
        if self.is_async:
            await asyncio.gather(*[self.plan(plan) for plan in plans])
        else:
            for plan in plans:
                await self.plan(plan)


class Maker:
    """Makes plans."""

    def __init__(self, random):
        self._random, self._names = random, 0

    def whole(self):
        """Return a plan, and whether the job gives up at its end."""
        plan = self._some(4, "closed_saga", "beside")
        gives_up = self._random.random() < 0.6
        return [*plan, *([["open_saga", self._name(), self._some(3, "beside")]] if gives_up else [])], gives_up

    def _some(self, most, *kinds):
        return [self._one(*kinds) for _ in range(self._random.randint(0, most))]

    def _one(self, *kinds):
        random, name = self._random, self._name()
        kind = random.choice(["step", "retried", "caught", "sleep", "wait", "call", "lost_call", *kinds])
        match kind:
            case "caught":
                return [kind, name, random.choice([None, 2])]
            case "sleep":
                return [kind, name, random.choice([0, 1])]
            case "closed_saga":
                return [kind, name, self._some(2, "beside")]
            case "beside":
                return [kind, name, [self._some(2) for _ in range(3)]]
        return [kind, name]

    def _name(self):
        self._names += 1
        return f"n{self._names}"


def booked(plan):
    """Yield what a plan books, in order, as far as that is known: that of plans beside each other is not."""
    for kind, name, *rest in plan:
        match kind:
            case "step" | "retried" | "call":
                yield name
            case "open_saga" | "closed_saga":
                yield f"{name} first"
                yield from booked(rest[0])
                yield f"{name} last"
            case "beside":
                for each in rest[0]:
                    yield from booked(each)

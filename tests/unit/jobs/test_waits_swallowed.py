"""Jobs that go on with what gather has collected of their waits: they call nothing with it, and end as usual."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier

import pytest

from pinlater import Job, JobSleeps
from pinlater.testing import FakeContext


class Other(Job[int], queue="others"):
    what: str


class Collects(Job, queue="collectors"):
    how: str

    async def run(self, context):
        async def call(number):
            return context.call(Other(what=f"{number}"), name=f"other {number}")

        found = await asyncio.gather(call(1), call(2), return_exceptions=True)
        go_on(self.how, context, found)


class CollectsFromThreads(Collects, queue="collectors"):
    def run(self, context):
        both = Barrier(2)

        def call(number):
            both.wait(10)
            with suppress(JobSleeps):
                return context.call(Other(what=f"{number}"), name=f"other {number}")

        with ThreadPoolExecutor(2) as pool:
            go_on(self.how, context, list(pool.map(call, (1, 2))))


def go_on(how, context, found):
    if how == "call":
        context.call(Other(what=f"{found}"), name="next")
    elif how == "wait":
        context.wait_for("event")
    else:
        context.sleep_for(60, name="nap")


def attempt(job, context):
    running = job.run(context)
    if running is not None:
        asyncio.run(running)


@pytest.mark.parametrize("kind", [Collects, CollectsFromThreads])
@pytest.mark.parametrize("how", ["call", "wait", "sleep"])
def test_a_job_that_has_collected_its_waits_cannot_go_on(kind, how):
    job = kind(how=how)
    context = FakeContext(job)
    with pytest.raises(JobSleeps):
        attempt(job, context)
    assert sorted(context.called) == ["other 1", "other 2"]
    assert {wait.name for wait in context.interruption.waits} == {"call/0/other 1", "call/0/other 2"}

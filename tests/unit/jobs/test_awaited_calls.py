"""Waits, calls and sleeps that a job awaits: they fail at once, and not when what they wait for has come."""

import asyncio

import pytest

from pinlater import Job, JobContext
from pinlater.testing import run_inline


class Child(Job[int], queue="parts"):
    def run(self, context: JobContext) -> int:
        return 1


class Awaits(Job, queue="wholes", attempts=1):
    what: str

    async def run(self, context: JobContext) -> None:
        match self.what:
            case "wait_for":
                await context.wait_for("approval", timeout=60)
            case "call":
                await context.call(Child())
            case "call_all":
                jobs, options = [[Child()]], {"name": "parts"}
                (await context.call_all(*jobs, **options))[0] + 1
            case "sleep_for":
                await context.sleep_for(60, name="a while")
            case "sleep_until":
                await context.sleep_until(4e9, name="long")


class WaitsWithin(Job[list], queue="wholes"):
    """Awaits its own coroutines, which wait in the right way."""

    async def run(self, context: JobContext) -> list:
        async def wait(name: str) -> str:
            return context.wait_for(name, str)

        return [await wait("first"), *await asyncio.gather(wait("left"), wait("right"))]


@pytest.mark.parametrize("what", ["wait_for", "call", "call_all", "sleep_for", "sleep_until"])
def test_it_fails_at_the_call_and_says_what_to_write(what):
    with run_inline(Awaits, Child) as client:
        client.enqueue(Awaits(what=what))
        [outcome] = client.outcomes
    assert outcome.ending == "failed", "and no child has run"
    assert f"write context.{what}(…) without await" in str(outcome.error)


def test_a_coroutine_that_waits_may_be_awaited():
    with run_inline(WaitsWithin) as client:
        handle = client.enqueue(WaitsWithin())
        for name in ("right", "first", "left"):
            handle.send(name, name)
        assert handle.result(0) == ["first", "left", "right"]

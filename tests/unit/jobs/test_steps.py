"""Steps of workflows: which use of a name is which, in loops and branches, and in every kind of context."""

import asyncio
from functools import partial

import pytest

from pinlater import Job, JobInterrupted
from pinlater.errors import BodyInvalid
from pinlater.testing import FakeContext, run_inline
from tests.unit.jobs.workflow_attempts import Plain


@pytest.fixture
def calls():
    return []


class Accident(BaseException):
    pass


def test_every_turn_of_a_loop_is_a_step_of_its_own(attempts, calls):
    def convert(page):
        if page == 3 and calls.count(3) == 0:
            calls.append(page)
            raise Accident
        calls.append(page)
        return page * 10

    def run(context):
        return [context.step("convert", convert, page) for page in context.step("list", lambda: [1, 2, 3, 4])]

    with pytest.raises(Accident):
        run(attempts.attempt())
    attempts.died()
    assert run(attempts.attempt(2)) == [10, 20, 30, 40]
    assert calls == [1, 2, 3, 3, 4]


def test_uses_are_kept_under_numbered_names(calls):
    context = FakeContext(Plain())
    for _ in range(3):
        context.step("a", calls.append, 1)
    context.step("b", calls.append, 1)
    assert context.ran == list(context.steps) == ["a", "a#2", "a#3", "b"]


def test_branches_with_names_of_their_own_come_and_go(attempts, calls):
    first = attempts.attempt()
    first.step("a", calls.append, "a")
    first.step("old branch", calls.append, "old")
    first.step("b", calls.append, "b")
    attempts.died()
    second = attempts.attempt(2)
    second.step("a", calls.append, "a")
    second.step("new branch", calls.append, "new")
    second.step("b", calls.append, "b")
    assert calls == ["a", "old", "b", "new"]


@pytest.mark.parametrize("name", ["a#2", "#1", "a#2#3"])
def test_a_name_cannot_look_counted(attempts, name):
    with pytest.raises(ValueError, match="without #number"):
        attempts.attempt().step(name, pytest.fail)


@pytest.mark.parametrize("name", [print, None, 7, b"a"])
def test_a_name_that_was_forgotten_is_asked_for(attempts, name):
    with pytest.raises(TypeError, match=r"is no name; the name of a step, .* is a text, and comes first"):
        attempts.attempt().step(name, pytest.fail)


@pytest.mark.parametrize("name", ["C#", "issue #", "#a", "a#2b", ""])
def test_other_names_can_be_anything(attempts, name):
    assert attempts.attempt().step(name, lambda: 1) == 1


def test_what_a_job_does_to_a_result_stays_with_it(attempts, calls):
    def run(context):
        rows = context.step("list", lambda: [1, 2, 3])
        while rows:
            context.step("row", calls.append, rows.pop())

    run(attempts.attempt())
    attempts.died()
    run(attempts.attempt(2))
    attempts.died()
    assert calls == [3, 2, 1]
    assert attempts.attempt(3).step("list", lambda: pytest.fail("ran again")) == [1, 2, 3]


# Coroutine functions


async def later(calls, what):
    await asyncio.sleep(0)
    calls.append(what)
    return (what,)


class Later:
    async def __call__(self, calls, what):
        return await later(calls, what)


def test_the_step_of_a_coroutine_function_is_awaited(attempts, calls):
    async def run(context):
        return [
            await context.step("a", partial(later, calls), "first"),
            await context.step("a", partial(later, calls), what="second"),
            await context.step("b", partial(Later(), calls), "third"),
        ]

    expected = [["first"], ["second"], ["third"]]
    assert asyncio.run(run(attempts.attempt())) == expected
    attempts.died()
    assert asyncio.run(run(attempts.attempt(2))) == expected
    assert calls == ["first", "second", "third"]


def test_several_at_once_are_named_in_the_order_of_the_calls(attempts, calls):
    async def after(before, done, n):
        await before.wait()
        calls.append(n)
        done.set()
        return (n,)

    async def run(context):
        *ended, begins = (asyncio.Event() for _ in range(4))
        begins.set()
        orders = zip([*ended[1:], begins], ended, strict=True)  # each begins when the one behind it has ended
        return await asyncio.gather(*[context.step("a", partial(after, *order), n) for n, order in enumerate(orders)])

    context = attempts.attempt()
    assert asyncio.run(run(context)) == [[0], [1], [2]]
    assert calls == [2, 1, 0]
    attempts.died()
    assert asyncio.run(run(attempts.attempt(2))) == [[0], [1], [2]]
    assert calls == [2, 1, 0]


def test_in_a_drain_no_step_begins_and_those_under_way_end(attempts, calls):
    async def slow():
        await asyncio.sleep(0.05)
        calls.append("slow")

    async def quick_then_another(context):
        await context.step("quick", partial(later, calls), "quick")
        await context.step("another", partial(later, calls), "never")

    async def run(context):
        await asyncio.gather(context.step("slow", slow), quick_then_another(context))

    with pytest.raises(JobInterrupted):
        asyncio.run(run(attempts.attempt(drain_after=1)))
    assert calls == ["quick", "slow"]
    attempts.died()
    asyncio.run(run(attempts.attempt(2)))
    assert calls == ["quick", "slow", "never"]


def test_a_step_within_a_step_does_not_wait_for_the_outer_one(attempts, calls):
    async def outer(context):
        calls.append("outer")
        await asyncio.gather(context.step("inner", partial(later, calls), "inner"))
        await context.step("another", partial(later, calls), "another")

    async def run(context):
        await asyncio.wait_for(context.step("outer", outer, context), 20)

    with pytest.raises(JobInterrupted):
        asyncio.run(run(attempts.attempt(drain_after=1)))
    attempts.died()
    context = attempts.attempt(2)
    asyncio.run(context.step("outer", outer, context))
    assert calls == ["outer", "inner", "outer", "another"]


def test_a_function_that_returns_a_coroutine_is_refused(attempts, calls):
    with pytest.raises(BodyInvalid, match="give it the async function itself"):
        attempts.attempt().step("a", lambda: later(calls, "never"))


class Gathers(Job, attempts=2):
    async def run(self, context: "FakeContext") -> None:
        await asyncio.gather(*[context.step("turn", partial(later, ended), n) for n in range(3)])
        if context.attempt == 1:
            raise OSError("not yet")


ended = []


def test_they_run_in_a_worker_and_are_kept():
    ended.clear()
    with run_inline(Gathers) as client:
        client.enqueue(Gathers())
        client.assert_succeeded()
    assert ended == [0, 1, 2]
    assert len(client.outcomes) == 2


def test_a_step_that_is_given_a_result_is_told_to_give_the_function(calls):
    with pytest.raises(TypeError, match=r"step 'a' needs a function, not 3; give it the function .*do not call it"):
        FakeContext(Plain()).step("a", int("3"))

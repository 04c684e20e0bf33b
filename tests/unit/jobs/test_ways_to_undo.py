"""The attempt that undoes a saga gets to all of its steps, also past those that have failed and that the job caught."""

import asyncio
from contextlib import suppress

import pytest

from pinlater import Constant, Discard, Job, SagaUndone, retrying
from pinlater.testing import killed_everywhere
from tests.unit.jobs.bookings import book, book_async, cancel, cancel_async, done, failures, note, run, undone


@pytest.fixture(autouse=True)
def forget():
    done.clear()
    failures.clear()


class Fallback(Job, queue="trips", attempts=2, backoff=Constant(0)):
    def run(self, context):
        with suppress(OSError):
            context.step("mail", retrying(note, attempts=2, backoff=Constant(0)), "mail")
        with context.saga() as saga:
            try:
                saga.step("cheap", book, "cheap flight", undo=cancel)
            except OSError:
                saga.step("dear", book, "flight", undo=cancel)
            context.sleep_for(0, name="no while")
            saga.step("book", book, "hotel", undo=cancel)
            raise Discard("no money")


class AsyncFallback(Fallback):
    async def run(self, context):
        with suppress(OSError):
            await context.step("mail", retrying(book_async, attempts=2, backoff=Constant(0)), "mail")
        async with context.saga() as saga:
            try:
                await saga.step("cheap", book_async, "cheap flight", undo=cancel)
            except OSError:
                await saga.step("dear", book_async, "flight", undo=cancel_async)
            context.sleep_until(0, name="no while")
            await saga.step("book", book_async, "hotel", undo=cancel)
            raise Discard("no money")


@pytest.mark.parametrize("kind", [Fallback, AsyncFallback])
def test_what_comes_after_a_step_that_failed_is_undone_wherever_it_is_killed(kind):
    for client in killed_everywhere(kind):
        done.clear()
        failures.update({"mail": 99, "cheap flight": 99})
        client.enqueue(kind())
        assert list(dict.fromkeys(done)) == ["flight", "hotel", *undone("hotel", "flight")], client.killed_at
        assert isinstance(client.outcomes[-1].error, Discard | SagaUndone)


def test_one_that_works_this_time_is_undone_too_and_nothing_new_begins():
    class Lucky(Fallback, queue="trips"):
        def run(self, context):
            with context.saga() as saga:
                with suppress(OSError):
                    saga.step("cheap", book, "cheap flight", undo=cancel)
                saga.step("book", book, "hotel", undo=cancel)
                saga.step("pay", note, "payment")
                context.step("thank", note, "thanks")

    failures.update({"cheap flight": 2, "payment": 99})
    run(Lucky())
    assert done == ["hotel", "cheap flight", *undone("cheap flight", "hotel")]


def test_one_that_failed_beside_what_is_to_be_undone_does_not_run_again():
    class Beside(Fallback, queue="trips"):
        async def run(self, context):
            async with context.saga() as saga:
                pay = saga.step("pay", book_async, "payment", undo=cancel)
                await asyncio.gather(pay, saga.step("book", book_later, "hotel", undo=cancel), return_exceptions=True)
                raise Discard("no money")

    async def book_later(what):
        await asyncio.sleep(0.01)
        return note(what)

    failures["payment"] = 1
    run(Beside())
    assert done == ["hotel", *undone("hotel")]


def test_what_comes_after_a_step_that_was_cancelled_is_undone():
    class Hurries(Fallback, queue="trips"):
        async def run(self, context):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await context.step("look", asyncio.sleep, 60)
            async with context.saga() as saga:
                await saga.step("book", book_async, "hotel", undo=cancel)
                raise Discard("no money")

    run(Hurries())
    assert done == ["hotel", *undone("hotel")]

"""What a type checker knows of steps and sagas; mypy checks this module as it checks the package, nobody runs it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import assert_type

from pinlater import Job, JobContext, retrying, timed


@dataclass
class Booking:
    number: int
    begins: datetime


def book(city: str, *, nights: int = 1) -> Booking:
    return Booking(nights, datetime.fromisoformat(city))


def cancel(booking: Booking) -> None: ...


def cancel_number(number: int) -> None: ...


async def book_later(city: str) -> Booking:
    return book(city)


class Plain(Job):
    def run(self, context: JobContext) -> None:
        assert_type(context.step("book", book, "rome", nights=2), Booking)
        assert_type(context.step("book", retrying(book, attempts=2, timeout=5), "rome"), Booking)
        assert_type(context.step("book", timed(book, timeout=5), "rome", nights=2), Booking)
        assert_type(context.step("book", retrying(timed(book, timeout=5), attempts=2), "rome"), Booking)
        assert_type(context.step("book", partial(book, "rome")), Booking)
        assert_type(context.key("book"), str)
        assert_type(context.since("vat"), bool)
        with context.saga() as saga:
            assert_type(saga.step("book", book, "rome", undo=cancel), Booking)
            assert_type(saga.step("book", book, "rome", undo=retrying(cancel, attempts=5)), Booking)
            assert_type(saga.step("book", book, "rome"), Booking)
            _ = saga.step("book", book, "rome", undo=cancel_number)  # type: ignore[arg-type] # it takes another result
        context.step("book", book, 7)  # type: ignore[call-overload] # it takes a text
        context.step("book", timed(book, timeout=5), 7)  # type: ignore[call-overload] # it takes a text
        context.publish(stage="booked", number=1)


class Awaiting(Job):
    async def run(self, context: JobContext) -> None:
        assert_type(await context.step("book", book_later, "rome"), Booking)
        assert_type(await context.step("book", timed(book_later, timeout=5), "rome"), Booking)
        async with context.saga() as saga:
            assert_type(await saga.step("book", book_later, "rome", undo=cancel), Booking)

"""Results of steps have the types that their functions say, in the first attempt as in all later ones."""

import enum
import logging
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn
from uuid import UUID

import msgspec
import pytest

from pinlater import retrying
from pinlater.errors import BodyInvalid, StepMismatch

if TYPE_CHECKING:
    from nowhere import Elsewhere


class Size(enum.Enum):
    SMALL = "s"


@dataclass
class Order:
    number: int
    placed: datetime


class Parcel(msgspec.Struct):
    orders: list[Order]
    label: bytes


class Place(NamedTuple):
    x: int
    y: int


MOMENT = datetime(2026, 11, 23, 4, 8, tzinfo=UTC)
VALUES = [
    (datetime, MOMENT),
    (date, date(2026, 1, 2)),
    (timedelta, timedelta(days=3)),
    (Order, Order(1, MOMENT)),
    (Parcel, Parcel([Order(1, MOMENT)], b"\x00")),
    (Place, Place(1, 2)),
    (Size, Size.SMALL),
    (set[int], {3, 1, 2}),
    (frozenset[int], frozenset({3})),
    (tuple[int, str], (1, "a")),
    (bytes, b"\xff"),
    (Decimal, Decimal("1.50")),
    (UUID, UUID(int=7)),
    (dict[int, date], {1: date(2026, 1, 2)}),
    (list[Order] | None, [Order(1, MOMENT)]),
    (list[Order] | None, None),
    (None, None),
    (float, 3.0),
    (Any, [1, "a"]),
    (object, [1, "a"]),
]


def returning(annotation, value):
    def function():
        return value

    function.__annotations__ = {"return": annotation}
    return function


def twice(attempts, function, *args):
    """Return the result of a step in the attempt that runs it and in the next one."""
    first = attempts.attempt().step("a", function, *args)
    attempts.died()
    return first, attempts.attempt(2).step("a", function, *args)


@pytest.mark.parametrize(("annotation", "value"), VALUES, ids=lambda each: str(each)[:40])
def test_a_result_is_of_the_type_that_its_function_says(attempts, annotation, value):
    for result in twice(attempts, returning(annotation, value)):
        assert result == value
        assert type(result) is type(value)


def day() -> "date":
    return date(2026, 1, 2)


async def day_later() -> date:
    return date(2026, 1, 2)


def day_of(month: int, missing: "Elsewhere | None" = None) -> "date":
    return date(2026, month, 2)


@wraps(day)
def wrapped(*args):
    return day()


class Calendar:
    def day(self) -> date:
        return date(2026, 1, 2)

    def __call__(self) -> date:
        return date(2026, 1, 2)

    @classmethod
    def of_class(cls) -> date:
        return date(2026, 1, 2)


@pytest.mark.parametrize(
    "function",
    [
        day,
        partial(day_of, 1),
        retrying(day, attempts=2),
        retrying(partial(day_of, 1), attempts=2),
        wrapped,
        Calendar().day,
        Calendar(),
        Calendar.of_class,
        partial(date, 2026, 1, 2),
    ],
)
def test_any_kind_of_function_can_say_it(attempts, function):
    assert twice(attempts, function) == (date(2026, 1, 2), date(2026, 1, 2))


def test_coroutine_functions_can_say_it(attempts):
    import asyncio

    async def run(context):
        return await context.step("a", day_later)

    assert asyncio.run(run(attempts.attempt())) == date(2026, 1, 2)
    attempts.died()
    assert asyncio.run(run(attempts.attempt(2))) == date(2026, 1, 2)


def unresolvable() -> "Elsewhere":
    return date(2026, 1, 2)


class Foreign:
    pass


@pytest.mark.parametrize(
    "function",
    [
        lambda: date(2026, 1, 2),
        unresolvable,
        returning(Any, date(2026, 1, 2)),
        returning(Foreign, date(2026, 1, 2)),
        returning(NoReturn, date(2026, 1, 2)),
        returning(datetime | str, date(2026, 1, 2)),
        returning(["nonsense"], date(2026, 1, 2)),
    ],
)
def test_without_a_type_that_can_be_read_results_are_json(attempts, function, caplog):
    assert twice(attempts, function) == ("2026-01-02", "2026-01-02")
    assert caplog.records == []


@dataclass
class Gift(Order):
    card: str = ""


@pytest.mark.parametrize(
    ("annotation", "value", "as_json"),
    [
        (int, "7", "7"),
        (int, True, True),
        (None, [1], [1]),
        (Order, Gift(1, MOMENT, "ada"), {"number": 1, "placed": "2026-11-23T04:08:00Z", "card": "ada"}),
    ],
)
def test_a_result_that_does_not_fit_is_json_in_all_attempts_and_said(attempts, annotation, value, as_json, caplog):
    caplog.set_level(logging.WARNING)
    assert twice(attempts, returning(annotation, value)) == (as_json, as_json)
    [record] = caplog.records
    assert "step 'a' returned something that does not fit the return annotation of function" in record.getMessage()


def test_what_a_job_does_to_a_typed_result_stays_with_it(attempts):
    def orders() -> dict[str, list[Order]]:
        return {"all": [Order(1, MOMENT)]}

    first = attempts.attempt().step("a", orders)
    first["all"][0].number = 2
    first["all"].append("nonsense")
    attempts.died()
    assert attempts.attempt(2).step("a", orders) == orders()


# Results of other versions of the code


def order() -> Order:
    return Order(1, MOMENT)


def without_version(annotation_of_now):
    def order():
        pytest.fail("ran again")

    order.__annotations__ = {"return": annotation_of_now}
    return order


class Later(msgspec.Struct):
    number: int
    vat: float


class LaterWithDefault(msgspec.Struct):
    number: int
    vat: float = 0.2


def test_a_type_with_new_defaults_takes_old_results(attempts):
    attempts.attempt().step("a", order)
    attempts.died()
    assert attempts.attempt(2).step("a", without_version(LaterWithDefault)) == LaterWithDefault(1)


def test_a_type_that_does_not_fit_an_old_result_is_an_error_that_names_the_step(attempts):
    attempts.attempt().step("a", order)
    attempts.died()
    with pytest.raises(StepMismatch, match=r"result of step 'a' does not fit what order returns now: .*`vat`.*default"):
        attempts.attempt(2).step("a", without_version(Later))


def test_results_of_older_workers_are_typed_if_they_fit_and_json_if_not(attempts):
    attempts.record({"fits": {"number": 1, "placed": "2026-11-23T04:08:00Z"}, "does not": {"number": 1}})
    context = attempts.attempt(2)
    assert context.step("fits", without_version(Order)) == order()
    assert context.step("does not", without_version(Order)) == {"number": 1}


def test_what_json_cannot_carry_is_refused(attempts):
    with pytest.raises(BodyInvalid, match="step 'a' returned something that JSON cannot carry"):
        attempts.attempt().step("a", returning(Foreign, Foreign()))
    with pytest.raises(BodyInvalid, match="nan"):
        attempts.attempt().step("b", returning(float, float("nan")))

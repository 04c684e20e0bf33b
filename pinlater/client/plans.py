"""Runs plans: generators that yield calls and receive their results, written once for both clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

from pinlater.errors import PinLaterError
from pinlater.protocol.operations import Call

T = TypeVar("T")


def run_plan(plan: Generator[Call[Any], Any, T], execute: Callable[[Call[Any]], Any]) -> T:
    """Make the calls that ``plan`` yields, and give it their results or errors; return what it returns."""
    try:
        call = next(plan)
        while True:
            try:
                result = execute(call)
            except PinLaterError as error:
                call = plan.throw(error)
            else:
                call = plan.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return] # a generator's own value


async def run_plan_async(plan: Generator[Call[Any], Any, T], execute: Callable[[Call[Any]], Awaitable[Any]]) -> T:
    """Do what ``run_plan`` does, with a coroutine function that makes the calls."""
    try:
        call = next(plan)
        while True:
            try:
                result = await execute(call)
            except PinLaterError as error:
                call = plan.throw(error)
            else:
                call = plan.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return] # as above

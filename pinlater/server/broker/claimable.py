"""Broker verbs for changes that make jobs claimable, built from the verbs of the store."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from pinlater.server.backends.store import Store

_P = ParamSpec("_P")
_T = TypeVar("_T")


class DequeueWaker(Protocol):
    """Wakes dequeues that wait for jobs."""

    @property
    def backend(self) -> Store:
        """The store."""

    async def make_claimable(
        self, queue: str, change: Coroutine[Any, Any, _T], count: Callable[[_T], int], due_ms: int | None
    ) -> _T:
        """Carry out a change in the store, and wake dequeues for the ``count`` jobs that it made claimable."""


def makes_claimable(
    verb: Callable[Concatenate[Store, _P], Coroutine[Any, Any, _T]], count: Callable[[_T], int]
) -> Callable[Concatenate[DequeueWaker, _P], Coroutine[Any, Any, _T]]:
    """Wrap a verb of the store so that dequeues of its queue are woken for the jobs that it made claimable.

    Args:
        verb: takes ``queue``, and perhaps ``run_after_ms``, the time at which the jobs fall due.
        count: returns the number of these jobs, given the verb's result.
    """
    name, bind = verb.__name__, inspect.signature(verb).bind

    @wraps(verb)
    async def call(broker: DequeueWaker, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        given = bind(None, *args, **kwargs).arguments
        change: Coroutine[Any, Any, _T] = getattr(broker.backend, name)(*args, **kwargs)
        return await broker.make_claimable(given["queue"], change, count, given.get("run_after_ms"))

    return call

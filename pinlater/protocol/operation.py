"""One call to be made, and the description of a call of the contract."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, overload

from pinlater.protocol.call_source import CallSource
from pinlater.protocol.messages import arguments_of
from pinlater.protocol.repeating import always

C = TypeVar("C", bound=CallSource)
D = TypeVar("D", bound=CallSource)
P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")

Arguments = tuple[Any, ...]
"""Arguments of a call without its context, in the order of the Thrift file: its request struct, or plain values."""


@dataclass(slots=True)  # not frozen: that would triple the time to create one
class Call(Generic[T]):
    """One call to be made.

    Attributes:
        method: name in the wire contract.
        arguments: its argument struct.
        convert: converts the reply to the result.
        is_repeatable: tells from its arguments whether it may be sent again when it may have been carried out.
        wait: seconds that the server may park it, on top of the usual time-out.
    """

    method: str
    arguments: Any
    convert: Callable[[Any], T]
    is_repeatable: Callable[[Any], bool]
    wait: float = 0.0

    @property
    def safe_to_repeat(self) -> bool:
        """Whether it may be sent again, to any server, when it may have been carried out."""
        return self.is_repeatable(self.arguments)

    @property
    def has_key(self) -> bool:
        """Whether it has an idempotency key: a server that keeps results carries it out once, even if repeated."""
        return self.arguments.context.idempotencyKey is not None

    @property
    def needs_memory(self) -> bool:
        """Whether it may have been carried out, and may be sent again only to a server that keeps results."""
        return not self.safe_to_repeat and bool(self.arguments.context.isRepeat)


@dataclass(frozen=True, slots=True, eq=False)
class Operation(Generic[C, P, T]):
    """A call of the contract. As an attribute of ``Calls``, it is a method that builds such calls.

    Attributes:
        method: name in the wire contract.
        build: builds its arguments except the context.
        read: converts the reply to the result.
        is_repeatable: tells from an argument struct whether the call may be sent again when it may have been carried
            out.
        has_key: whether it takes an idempotency key.
        may_wait: whether the server may park it.
        takes_request: whether it takes a struct named ``request`` instead of plain values.
        is_original: whether servers of the original know it.
    """

    method: str
    build: Callable[Concatenate[C, P], Arguments]
    read: Callable[[Any], T]
    is_repeatable: Callable[[Any], bool]
    has_key: bool
    may_wait: bool
    takes_request: bool
    is_original: bool

    @overload
    def __get__(self, calls: None, owner: type[C]) -> Self: ...
    @overload
    def __get__(self, calls: C, owner: type[C]) -> Callable[P, Call[T]]: ...
    def __get__(self, calls: C | None, owner: type[C]) -> Self | Callable[P, Call[T]]:
        """Return the operation itself for the class; for an instance, the function that builds its calls."""
        return self if calls is None else functools.partial(self.call, calls)

    def call(self, calls: C, *args: P.args, **kwargs: P.kwargs) -> Call[T]:
        """Build a call on behalf of ``calls``."""
        arguments = arguments_of(self.method)(calls.context(has_key=self.has_key), *self.build(calls, *args, **kwargs))
        wait = (arguments.request.waitMillis or 0) / 1000 if self.may_wait else 0.0
        return Call(self.method, arguments, self.read, self.is_repeatable, wait)

    def variant(self, build: Callable[Concatenate[D, Q], Arguments]) -> Operation[D, Q, T]:
        """Return the same operation with another function that builds its arguments."""
        return replace(cast("Operation[D, Q, T]", self), build=build)


OPERATIONS: dict[str, Operation[Any, ..., Any]] = {}
"""All calls of the contract, by method."""


def operation(
    method: str,
    read: Callable[[Any], T],
    *,
    repeatable: Callable[[Any], bool] = always,
    has_key: bool = False,
    may_wait: bool = False,
    is_original: bool = True,
) -> Callable[[Callable[Concatenate[C, P], Arguments]], Operation[C, P, T]]:
    """Turn a function that builds arguments into an operation."""

    def wrap(build: Callable[Concatenate[C, P], Arguments]) -> Operation[C, P, T]:
        takes_request = any(field[1] == "request" for field in arguments_of(method).thrift_spec.values())
        row = Operation(method, build, read, repeatable, has_key, may_wait, takes_request, is_original)
        OPERATIONS[method] = row
        return row

    return wrap


addition = functools.partial(operation, is_original=False)
"""``operation`` for calls that servers of the original do not know."""

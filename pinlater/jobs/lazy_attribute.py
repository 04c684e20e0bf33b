"""Attributes that are made when they are first needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

_T = TypeVar("_T")


class lazy(Generic[_T]):  # noqa: N801 - a decorator
    """An attribute that a function of its object makes when it is first read.

    If several threads read it at once, each may make a value, but all get the one that was first stored. (The
    ``cached_property`` of Python 3.12 gives each its own, that of 3.11 makes other objects wait.)

    Args:
        make: makes the value for an object.
    """

    def __init__(self, make: Callable[[Any], _T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | _T:
        """Return the value; from then on, the attribute is found without this call."""
        if instance is None:
            return self
        value: _T = instance.__dict__.setdefault(self._name, self._make(instance))
        return value

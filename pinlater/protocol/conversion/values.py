"""Plain values: durations, counts, required fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pinlater.errors import ProtocolError

MOST_RUN_MS = 2**53


def milliseconds(seconds: float) -> int:
    """Return seconds as whole milliseconds, rounded up."""
    return -int(-seconds * 1000 // 1)


def present(value: Any) -> Any:
    """Return ``value`` unless it is absent; the codec does not insist on required fields.

    Raises:
        ProtocolError: it is absent.
    """
    if value is None:
        raise ProtocolError("the server's answer lacks a required field")
    return value


def default(value: Any, other: Any) -> Any:
    """Return ``value``, or ``other`` where the field is absent."""
    return other if value is None else value


def nothing(_: Any) -> None:
    """Read the reply of a void method."""


def number(reply: Any) -> int:
    """Read a count."""
    return int(present(reply))


def flag(reply: Any) -> bool:
    """Read a yes or no."""
    return bool(present(reply))


def several(names: Iterable[str]) -> list[str]:
    """Return names as a list, but refuse a single text, which would become a list of letters.

    Raises:
        TypeError: ``names`` is a text.
    """
    if isinstance(names, str):
        raise TypeError(f"{names!r} is one name where several can be given; put it into a list: [{names!r}]")
    return list(names)

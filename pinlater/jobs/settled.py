"""Settled errors: every later attempt would get them again, from what has arrived or has not arrived in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_E = TypeVar("_E", bound=Exception)


class SettledErrors:
    """The errors with which calls and waits of one attempt have ended."""

    def __init__(self) -> None:
        self._known: list[tuple[Exception, Callable[[], object]]] = []

    def add(self, error: _E, reopen: Callable[[], object]) -> _E:
        """Add an error; return it, to be raised.

        Args:
            error: the error.
            reopen: changes the record so that the job tries again if it is given up and then retried by hand.
        """
        self._known.append((error, reopen))
        return error

    def reopen(self, error: BaseException) -> bool:
        """Let a retry by hand try again what ended with ``error``; return False if that is not a settled error."""
        for known, reopen in self._known:
            if known is error:
                reopen()
                return True
        return False

"""Errors that stay: each further attempt would get them again from what has already come, or has not come in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_E = TypeVar("_E", bound=Exception)


class SettledErrors:
    """Knows the errors with which calls and waits of one attempt have ended."""

    def __init__(self) -> None:
        self._known: list[tuple[Exception, Callable[[], object]]] = []

    def add(self, error: _E, reopen: Callable[[], object]) -> _E:
        """Return an error, to be raised.

        Args:
            error: it.
            reopen: changes what is recorded: if the job is given up and a person retries it, it tries anew.
        """
        self._known.append((error, reopen))
        return error

    def reopen(self, error: BaseException) -> bool:
        """Let a retry by hand try anew what has ended with ``error``; return False if that is not such an error."""
        for known, reopen in self._known:
            if known is error:
                reopen()
                return True
        return False

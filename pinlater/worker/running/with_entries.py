"""Finds out whether an exception raised in a thread now would come between a lock and its ``with`` statement.

Up to Python 3.13, nothing can be raised between the call of a lock's ``__enter__`` and the block of its ``with``
statement. From Python 3.14 on, the interpreter looks there for signals and for exceptions from other threads. What it
raises then leaves the lock locked for ever.
"""

from __future__ import annotations

import dis
import sys
from functools import lru_cache
from types import CodeType, FrameType
from typing import NamedTuple

_LOOKS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD", "RESUME"})
"""The instructions at whose end the interpreter looks for something to raise."""

RETRY_SECONDS = 0.01
"""After this time, what was postponed is tried again."""

_MOST_IN_A_ROW = 5


def is_entering(frame: FrameType | None) -> bool:
    """Return whether a thread calls an ``__enter__`` that is not written in Python, such as that of a lock.

    Args:
        frame: the innermost frame of the thread; None: it runs no Python code.
    """
    return frame is not None and frame.f_lasti in _offsets(frame.f_code).enters


def may_enter(frame: FrameType | None) -> bool:
    """Return whether an exception from another thread may be raised in this one at the end of an ``__enter__``.

    A thread that was interrupted at the end of one instruction looks for such an exception at the end of the next.
    """
    return frame is not None and frame.f_lasti in _offsets(frame.f_code).before


class Postponement:
    """Decides whether to postpone an exception, a few times in a row at most.

    A thread that waits is at the same instruction again and again. What is raised then ends the wait, or comes after
    it.
    """

    def __init__(self) -> None:
        self._times = 0

    def is_needed(self, *, is_unsafe: bool) -> bool:
        """Return whether to try again in a moment, given whether the exception may leave a lock locked now."""
        is_needed = is_unsafe and self._times < _MOST_IN_A_ROW
        self._times = self._times + 1 if is_needed else 0
        return is_needed


class _Offsets(NamedTuple):
    """Offsets of instructions: of calls of ``__enter__``, and of those before them, from the last look on."""

    enters: frozenset[int] = frozenset()
    before: frozenset[int] = frozenset()


@lru_cache(256)
def _offsets(code: CodeType) -> _Offsets:
    if sys.version_info < (3, 14):
        return _Offsets()
    enters: set[int] = set()
    before: set[int] = set()
    since: list[int] = []
    is_enter = False
    for instruction in dis.get_instructions(code):
        if instruction.opname in _LOOKS:
            if is_enter:
                enters.add(instruction.offset)
                before.update(since)
            since = []
        since.append(instruction.offset)
        is_enter = instruction.opname == "LOAD_SPECIAL" and instruction.argrepr == "__enter__"
    return _Offsets(frozenset(enters), frozenset(before))

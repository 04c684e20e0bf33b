"""Calls of the context that a job awaits by mistake: they return values, and not what can be awaited."""

from __future__ import annotations

import sys
from opcode import opmap
from types import FrameType

_AWAIT, _CACHE = opmap.get("GET_AWAITABLE"), opmap.get("CACHE")
_OURS = f"{__name__.partition('.')[0]}."


def refuse_await() -> None:
    """Raise a ``TypeError`` if the job awaits the call of its context that calls this.

    Python itself would raise it only when the call has returned a value, which may be days later. Call this where a
    job is about to wait, since it looks at the job's bytecode.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - there is no other way
    name = ""
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(_OURS):
        name, frame = frame.f_code.co_name, frame.f_back
    if frame is not None and _awaits_its_call(frame):
        raise TypeError(f"write context.{name}(…) without await, in an async def run, too: the job itself waits")


def _awaits_its_call(frame: FrameType) -> bool:
    code, at = frame.f_code.co_code, frame.f_lasti + 2
    while at < len(code) and code[at] == _CACHE:
        at += 2
    return at < len(code) and code[at] == _AWAIT

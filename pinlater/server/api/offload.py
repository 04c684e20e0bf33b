"""Run large pieces of work in a thread, so that they do not block the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from pinlater.protocol.codec import MANY_ELEMENTS

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def offload(count: int, work: Callable[_P, _T], *arguments: _P.args, **options: _P.kwargs) -> _T:
    """Run ``work``, in a thread if it handles many items; return its result.

    Args:
        count: number of items, such as the jobs of a call.
        work: the function; it must not use the event loop.
        arguments: positional arguments of ``work``.
        options: keyword arguments of ``work``.
    """
    if count <= MANY_ELEMENTS:
        return work(*arguments, **options)
    return await asyncio.to_thread(work, *arguments, **options)

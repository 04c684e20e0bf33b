"""Work on very many things at once: done beside the event loop, so that others have their turn meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from pinlater.protocol.codec import MANY_ELEMENTS

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def aside(count: int, work: Callable[_P, _T], *arguments: _P.args, **options: _P.kwargs) -> _T:
    """Return what ``work`` returns; it is done in a thread if it is about many things.

    Args:
        count: how many they are, such as jobs of a call.
        work: touches nothing that belongs to the event loop.
        arguments: of ``work``.
        options: of ``work``, too.
    """
    if count <= MANY_ELEMENTS:
        return work(*arguments, **options)
    return await asyncio.to_thread(work, *arguments, **options)

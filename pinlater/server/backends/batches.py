"""Changes of many jobs in steps, each a transaction of its own, so that no other call waits long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from typing import TypeVar

from pinlater.server.backends.body_pattern import BodyPattern

STEP_JOBS = 500
"""Most jobs that one step reads, and changes."""

_T = TypeVar("_T")


async def change_in_steps(
    pages: AsyncIterator[_T],
    change: Callable[[_T, int], Awaitable[int]],
    limit: int,
    *,
    nothing: _T,
    pattern: BodyPattern | None = None,
) -> int:
    """Change jobs page by page until there are enough; return how many.

    Jobs of a page that other calls change meanwhile are replaced by the next page: less than the limit means no more.

    Args:
        pages: of jobs that match.
        change: changes some of the jobs of a page, given how many were changed before; returns how many are then.
        limit: most jobs.
        nothing: a page without jobs. If there is no other, ``change`` is given that: the call may have been carried out
            before.
        pattern: that bodies are searched for; the time for that is not spent on changes.
    """
    changed: int | None = None
    async for page in pages:
        with pattern.paused() if pattern is not None else nullcontext():
            changed = await change(page, changed or 0)
        if changed >= limit:
            break
    return await change(nothing, 0) if changed is None else changed

"""Changes of many jobs in steps, each in its own transaction, so that no other call waits long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from typing import TypeVar

from pinlater.server.backends.body_pattern import BodyPattern

STEP_JOBS = 500
"""Most jobs that one step reads and changes."""

_T = TypeVar("_T")


async def change_in_steps(
    pages: AsyncIterator[_T],
    change: Callable[[_T, int], Awaitable[int]],
    limit: int,
    *,
    nothing: _T,
    pattern: BodyPattern | None = None,
) -> int:
    """Change jobs page by page until ``limit`` are changed; return how many.

    If other calls change jobs of a page meanwhile, the next page makes up for them, so a result below the limit means
    that no more jobs match.

    Args:
        pages: pages of jobs that match.
        change: changes jobs of a page; takes and returns the number of jobs changed so far.
        limit: most jobs to change.
        nothing: a page without jobs. ``change`` gets it if there are no pages: the call may have been carried out
            before.
        pattern: what bodies are searched for, if they are; its time does not run during changes.
    """
    changed: int | None = None
    async for page in pages:
        with pattern.paused() if pattern is not None else nullcontext():
            changed = await change(page, changed or 0)
        if changed >= limit:
            break
    return await change(nothing, 0) if changed is None else changed

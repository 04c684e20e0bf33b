"""Tasks that start at once, which saves most calls a turn of the event loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")

if sys.version_info >= (3, 12):

    def start_task(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Carry out a coroutine as a task; it runs up to its first wait before this returns.

        On Python 3.11 it begins in the next turn of the loop.
        """
        return asyncio.Task(work, loop=loop, eager_start=True)

else:

    def start_task(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Carry out a coroutine as a task, from the next turn of the loop on."""
        return loop.create_task(work)

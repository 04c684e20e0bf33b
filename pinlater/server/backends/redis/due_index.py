"""The due index: tells the monitor which queues to check, so that it need not check all of them.

The script that claims jobs also indexes the claim, so the monitor misses none, whichever server made it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from pinlater.server.backends.redis.script_calls import ScriptRunner

_KEY = "earliest"
"""What the names of the shard's index keys begin with."""

_MAX_QUEUES = 1000
"""Most queues of each kind that one lookup returns."""

_REBUILD_QUEUES = 25
_REBUILD_SECONDS = 1.0
"""So few queues are rebuilt per interval that it costs next to nothing, however many queues there are."""

_FIRST_REBUILD_QUEUES = 500


class DueIndex:
    """Finds queues with claims that may have expired, and with finished jobs that may be old enough to delete.

    Servers of older versions do not index what they claim. So the index is rebuilt for all queues before the first
    lookup, and for a few queues per second from then on. Older servers end expired claims of all queues themselves.

    Args:
        scripts: runs scripts on the shard.
        queue_names: returns the names of all queues.
    """

    def __init__(self, scripts: ScriptRunner, queue_names: Callable[[], Awaitable[list[str]]]) -> None:
        self._scripts = scripts
        self._queue_names = queue_names
        self._is_built = False
        self._to_rebuild: list[str] = []
        self._next_rebuild = 0.0

    async def queues_with_expired(self) -> list[str]:
        """Return queues that may have expired claims, in random order, so that none is always last."""
        await self._rebuild_some()
        [queues] = await self._due("claims", 0)
        return queues

    async def queues_with_finished(self, succeeded_ttl_ms: int, failed_ttl_ms: int) -> tuple[list[str], list[str]]:
        """Return queues that may have succeeded jobs, and failed jobs, older than these times; each in random order."""
        await self._rebuild_some()
        succeeded, failed = await self._due("S", succeeded_ttl_ms, "F", failed_ttl_ms)
        return succeeded, failed

    async def queues_with_failures(self) -> list[str]:
        """Return queues whose failure groups are due for a check, in random order."""
        [queues] = await self._due("failures", 0)
        return queues

    async def rebuild(self, *queues: str) -> None:
        """Rebuild the entries of these queues, and remove those of deleted queues."""
        await self._scripts.run_for_shard("rebuild_due_index", _KEY, *queues)

    async def _due(self, *kinds_and_ages: Any) -> list[list[str]]:
        found = await self._scripts.run_for_shard("due_queues", _KEY, _MAX_QUEUES, *kinds_and_ages)
        decoded = [[name.decode() for name in names] for names in found]
        for names in decoded:
            random.shuffle(names)
        return decoded

    async def _rebuild_some(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._is_built and now < self._next_rebuild:
            return
        self._next_rebuild = now + _REBUILD_SECONDS
        if not self._to_rebuild:
            self._to_rebuild = await self._queue_names()
        while self._to_rebuild:
            size = _REBUILD_QUEUES if self._is_built else _FIRST_REBUILD_QUEUES
            await self.rebuild(*self._to_rebuild[:size])
            del self._to_rebuild[:size]
            if self._is_built:
                return
        self._is_built = True

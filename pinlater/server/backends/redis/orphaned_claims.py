"""Orphaned claims: their answers were lost, so nobody runs the jobs; release them before their leases expire."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from pinlater.errors import QueueNotFound, ServiceError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.plural import plural
from pinlater.server.backends.records import Claim, CommitStats
from pinlater.server.backends.redis.lifecycle import pack_ids, release
from pinlater.server.backends.redis.script_calls import ScriptRunner

log = logging.getLogger(__name__)

_RELEASES = 3
"""A Redis server that had stopped may execute a claim after its caller has given up, so one release is not enough."""

_PAUSE_SECONDS = 0.5
"""Pause before each release. Releases that fail because the shard is down do not count."""

_CLOSE_SECONDS = 2.0


class RedisOrphanedClaims:
    """Releases the claims of this process on one shard whose answers were lost.

    Args:
        scripts: runs scripts on the shard.
        on_release: called with the name of a queue of which jobs were released.
        on_commit: called with stats that say how many jobs were released.
    """

    def __init__(
        self,
        scripts: ScriptRunner,
        on_release: Callable[[str], None],
        on_commit: Callable[[CommitStats], None],
    ) -> None:
        self._scripts = scripts
        self._on_release = on_release
        self._on_commit = on_commit
        self._releases_left: dict[tuple[str, str], int] = {}
        self._spared: dict[tuple[str, str], bytes] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, queue: str, claim: Claim) -> None:
        """Release a claim in the background, except for the jobs that it already held before (``claim.held``)."""
        self._releases_left[queue, claim.descriptor] = _RELEASES
        self._spared[queue, claim.descriptor] = pack_ids(JobDescriptor.parse(job.descriptor) for job in claim.held)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def has(self, queue: str, claim: str) -> bool:
        """Return whether a claim is being released, so that no job may be claimed under it."""
        return (queue, claim) in self._releases_left

    async def close(self) -> None:
        """Release all once more: once the process has ended, their jobs wait until the leases expire."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        with contextlib.suppress(TimeoutError, ServiceError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._release_all()

    async def _run(self) -> None:
        try:
            while self._releases_left:
                await asyncio.sleep(_PAUSE_SECONDS)
                with contextlib.suppress(ServiceError):  # logged by the sharded store
                    await self._release_all()
        finally:
            self._task = None

    async def _release_all(self) -> None:
        """Release the jobs of all these claims: IN_PROGRESS -> PENDING, no attempt spent."""
        for queue, claim in list(self._releases_left):
            released, began = 0, time.monotonic()
            with contextlib.suppress(QueueNotFound):
                spared = self._spared[queue, claim]
                released = await release(self._scripts, queue, by="claim", which=claim, spared=spared)
            if released:
                log.warning("queue %s: released %s whose dequeue was not answered", queue, plural(released))
                self._on_commit(CommitStats(1, time.monotonic() - began, claims_undone=released))
                self._on_release(queue)
            self._releases_left[queue, claim] -= 1
            if not self._releases_left[queue, claim]:
                del self._releases_left[queue, claim], self._spared[queue, claim]

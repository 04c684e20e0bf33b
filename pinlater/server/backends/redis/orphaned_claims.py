"""Claims whose answers were lost: nobody works on their jobs, so they are given back before their leases end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from pinlater.errors import QueueNotFound, ServiceError
from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.records import Claim, CommitStats
from pinlater.server.backends.redis.lifecycle import ids_of, release
from pinlater.server.backends.redis.script_calls import Asker

log = logging.getLogger(__name__)

_LOOKS = 3
"""A claim may be carried out after its caller has given up, when a stopped server goes on: so once is not enough."""

_PAUSE_SECONDS = 0.5
"""Before each look. While the shard is away, looks do not count."""

_FAREWELL_SECONDS = 2.0


class Strays:
    """Gives back the claims of this process whose answers were lost, on one shard.

    Args:
        asker: of the shard.
        tell: is called with a queue that has jobs again.
        on_commit: is called with the number of jobs that were given back.
    """

    def __init__(
        self, asker: Asker, tell: Callable[[str], None], on_commit: Callable[[CommitStats], None] = lambda _: None
    ) -> None:
        self._asker = asker
        self._tell = tell
        self._on_commit = on_commit
        self._looks: dict[tuple[str, str], int] = {}
        self._spared: dict[tuple[str, str], bytes] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, queue: str, claim: Claim) -> None:
        """Take note of a claim that has no answer; what it held before is alive."""
        self._looks[queue, claim.descriptor] = _LOOKS
        self._spared[queue, claim.descriptor] = ids_of(JobDescriptor.parse(job.descriptor) for job in claim.held)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def has(self, queue: str, claim: str) -> bool:
        """Whether a claim is being given back, so that nothing else must be claimed under it."""
        return (queue, claim) in self._looks

    async def close(self) -> None:
        """Look for the last time: when this process is gone, only the end of their leases helps."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        with contextlib.suppress(TimeoutError, ServiceError):
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await self._give_back()

    async def _run(self) -> None:
        try:
            while self._looks:
                await asyncio.sleep(_PAUSE_SECONDS)
                with contextlib.suppress(ServiceError):  # of the shard, which says so itself
                    await self._give_back()
        finally:
            self._task = None

    async def _give_back(self) -> None:
        """Make the jobs of these claims pending again, no attempt spent."""
        for queue, claim in list(self._looks):
            released, began = 0, time.monotonic()
            with contextlib.suppress(QueueNotFound):
                spared = self._spared[queue, claim]
                released = await release(self._asker, queue, by="claim", which=claim, spared=spared)
            if released:
                log.warning("queue %s: %d jobs were claimed for an answer that got lost; given back", queue, released)
                self._on_commit(CommitStats(1, time.monotonic() - began, claims_undone=released))
                self._tell(queue)
            self._looks[queue, claim] -= 1
            if not self._looks[queue, claim]:
                del self._looks[queue, claim], self._spared[queue, claim]

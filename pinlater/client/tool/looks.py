"""What ``pinlater top`` sees of queues: counts, who is first in line, and how the counts change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pinlater.errors import DequeueRateLimited, ProtocolError, QueueNotFound
from pinlater.state import JobState

if TYPE_CHECKING:
    from pinlater.client.async_client import AsyncClient
    from pinlater.client.records import QueueSettings


class QueueLook(NamedTuple):
    """One queue at one moment.

    Attributes:
        at: monotonic seconds.
        queue: its name.
        due: jobs that wait and are due; counts go no further than the server's ``COUNT_LIMIT``.
        scheduled: jobs that are not due yet.
        running: jobs that are claimed.
        succeeded: jobs that are done and not collected yet.
        failed: jobs that were given up.
        wait_seconds: how long the job that is first in line has been due; None if none is, or the queue is paused.
        settings: what holds its jobs back; None: the server cannot say.
    """

    at: float
    queue: str
    due: int
    scheduled: int
    running: int
    succeeded: int
    failed: int
    wait_seconds: float | None
    settings: QueueSettings | None

    def ended_since(self, before: QueueLook | None) -> float | None:
        """Return how many jobs have ended a second since an earlier look; None without one."""
        if before is None or self.at <= before.at:
            return None
        change = self.succeeded + self.failed - before.succeeded - before.failed
        return max(change, 0) / (self.at - before.at)


async def look_at_queues(client: AsyncClient, names: Sequence[str]) -> list[QueueLook]:
    """Return a look at each of some queues, or at all there are; those that are gone are left out."""
    try:
        settings = await client.queue_settings()
    except ProtocolError:  # a server of the original does not know the call
        settings = {}
    queues = names or sorted(await client.queue_names())
    looks = await asyncio.gather(*(_look_at(client, queue, settings.get(queue)) for queue in queues))
    return [look for look in looks if look is not None]


async def _look_at(client: AsyncClient, queue: str, settings: QueueSettings | None) -> QueueLook | None:
    try:
        counts = await asyncio.gather(
            client.count(queue, JobState.PENDING),
            client.count(queue, JobState.PENDING, future=True),
            client.count(queue, JobState.IN_PROGRESS),
            client.count(queue, JobState.SUCCEEDED),
            client.count(queue, JobState.FAILED),
        )
        wait_seconds = await _first_in_line(client, queue) if counts[0] else None
    except QueueNotFound:
        return None
    return QueueLook(time.monotonic(), queue, *counts, wait_seconds, settings)


async def _first_in_line(client: AsyncClient, queue: str) -> float | None:
    try:
        found = await client.dequeue_jobs(queue, 1, dry_run=True)
    except DequeueRateLimited:
        return None
    if not found or found[0].run_after_ms is None:
        return None
    return max(time.time() - found[0].run_after_ms / 1000, 0.0)

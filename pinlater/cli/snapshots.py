"""What ``pinlater top`` sees of queues: counts, how they change, and since when jobs wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pinlater.errors import DequeueRateLimited, ProtocolError, QueueNotFound
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.client.async_client import AsyncClient
    from pinlater.model.records import QueueSettings


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
        wait_seconds: how long the job has been due that has been so for longest; None if none is. Of a server that
            does not know: of the job that is first in line, and None of a paused queue.
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
    oldest = await _oldest_due(client, names)
    looks = await asyncio.gather(*(_look_at(client, queue, settings.get(queue), oldest) for queue in queues))
    return [look for look in looks if look is not None]


async def _oldest_due(client: AsyncClient, names: Sequence[str]) -> dict[str, int] | None:
    try:
        return await client.oldest_due(names)
    except ProtocolError:  # as above
        return None


async def _look_at(
    client: AsyncClient, queue: str, settings: QueueSettings | None, oldest: Mapping[str, int] | None
) -> QueueLook | None:
    try:
        counts = await asyncio.gather(
            client.count(queue, JobState.PENDING),
            client.count(queue, JobState.PENDING, future=True),
            client.count(queue, JobState.IN_PROGRESS),
            client.count(queue, JobState.SUCCEEDED),
            client.count(queue, JobState.FAILED),
        )
        due_ms = await _first_in_line(client, queue) if oldest is None else oldest.get(queue)
    except QueueNotFound:
        return None
    wait_seconds = None if due_ms is None else max(time.time() - due_ms / 1000, 0.0)
    return QueueLook(time.monotonic(), queue, *counts, wait_seconds, settings)


async def _first_in_line(client: AsyncClient, queue: str) -> int | None:
    try:
        found = await client.dequeue_jobs(queue, 1, dry_run=True)
    except DequeueRateLimited:
        return None
    return found[0].run_after_ms if found else None

"""Snapshots of queues for ``pinlater top``: counts, rates and wait times."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pinlater.client.store_time import now_ms_of
from pinlater.errors import DequeueRateLimited, ProtocolError, QueueNotFound
from pinlater.model.jobs import missing_shards
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.client.async_client import AsyncClient
    from pinlater.model.queues import QueueSettings

T = TypeVar("T")
D = TypeVar("D")


class QueueSnapshot(NamedTuple):
    """One queue at one moment.

    Attributes:
        at: monotonic seconds.
        queue: name of the queue.
        due: number of pending jobs that are due; the server counts up to its ``COUNT_LIMIT``.
        scheduled: number of pending jobs that are not due yet.
        retrying: number of pending jobs whose last attempt failed, not included in the other two; None if the server
            cannot tell.
        running: number of claimed jobs.
        succeeded: number of succeeded jobs that are still stored.
        failed: number of failed jobs that are still stored.
        wait_seconds: how long the oldest due job has been waiting; None if none is due. For an original server: the
            wait of the job that is handed out next; None if the queue is paused.
        settings: limits of the queue; None if the server does not support them.
    """

    at: float
    queue: str
    due: int
    scheduled: int
    retrying: int | None
    running: int
    succeeded: int
    failed: int
    wait_seconds: float | None
    settings: QueueSettings | None

    @property
    def missing_shards(self) -> tuple[str, ...]:
        """Names of the shards that did not answer, whose jobs the numbers lack."""
        return missing_shards(self.due)

    def ended_since(self, before: QueueSnapshot | None) -> float | None:
        """Return the jobs ended per second since an earlier snapshot; None without one."""
        if before is None or self.at <= before.at:
            return None
        change = self.succeeded + self.failed - before.succeeded - before.failed
        return max(change, 0) / (self.at - before.at)


async def read_snapshots(client: AsyncClient, names: Sequence[str]) -> list[QueueSnapshot]:
    """Read a snapshot of each of the given queues, or of all; skip queues that do not exist."""
    settings: dict[str, QueueSettings] = await _known(client.queue_settings(), {})
    queues = names or sorted(await client.queue_names())
    oldest = await _known(client.oldest_due(names), None)
    # Servers that cannot group failures do not tell jobs that retry apart, either.
    has_retrying = await _known(client.failure_groups(names, limit=0), None) is not None
    now_ms = await now_ms_of(client)
    snapshots = [  # one after the other: calls of hundreds of queues would wait for connections, and time out
        await _read_snapshot(client, queue, settings.get(queue), oldest, now_ms, has_retrying=has_retrying)
        for queue in queues
    ]
    return [snapshot for snapshot in snapshots if snapshot is not None]


async def _known(answer: Awaitable[T], otherwise: D) -> T | D:
    """Return an answer, or something else if the server is too old for the call."""
    try:
        return await answer
    except ProtocolError:
        return otherwise


async def _read_snapshot(
    client: AsyncClient,
    queue: str,
    settings: QueueSettings | None,
    oldest: Mapping[str, int] | None,
    now_ms: int,
    *,
    has_retrying: bool,
) -> QueueSnapshot | None:
    others = False if has_retrying else None
    kinds: list[tuple[JobState, bool, bool | None]] = [
        (JobState.PENDING, False, others),
        (JobState.PENDING, True, others),
        (JobState.IN_PROGRESS, False, None),
        (JobState.SUCCEEDED, False, None),
        (JobState.FAILED, False, None),
        *([(JobState.PENDING, False, True)] if has_retrying else []),
    ]
    counting = [
        asyncio.create_task(client.count(queue, state, future=future, retrying=retrying))
        for state, future, retrying in kinds
    ]
    await asyncio.wait(counting)  # for all of them, or nobody would close their connections
    for task in counting:
        task.exception()  # retrieved here, or Python would log those of all tasks but the first
    try:
        due, scheduled, running, succeeded, failed, *retrying = (task.result() for task in counting)
        due_ms = await _first_in_line(client, queue) if oldest is None else oldest.get(queue)
    except QueueNotFound:
        return None
    wait_seconds = None if due_ms is None else max(now_ms - due_ms, 0) / 1000
    return QueueSnapshot(
        at=time.monotonic(),
        queue=queue,
        due=due,
        scheduled=scheduled,
        retrying=retrying[0] if retrying else None,
        running=running,
        succeeded=succeeded,
        failed=failed,
        wait_seconds=wait_seconds,
        settings=settings,
    )


async def _first_in_line(client: AsyncClient, queue: str) -> int | None:
    try:
        found = await client.dequeue_jobs(queue, 1, dry_run=True)
    except DequeueRateLimited:
        return None
    return found[0].run_after_ms if found else None

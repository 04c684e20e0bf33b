"""Reports of workers: each is stored on one shard, the same as long as that answers, and read from all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pinlater.errors import ShardConnectionFailed
from pinlater.server.backends.records import MAX_REPORTS, KeptReport
from pinlater.server.backends.sharded.fan_out import PATIENCE_SECONDS, ask_all, no_healthy_shards
from pinlater.server.backends.sharded.placement import keepers
from pinlater.server.backends.sharded.shard_handle import ShardHandle

_MOST_TRIES = 4


async def store(handles: Sequence[ShardHandle], worker_id: str, report: bytes, keep_ms: int) -> None:
    """Store a report on the first shard that answers; a slow one is not waited for if there is another.

    Raises:
        NoHealthyShards: none does.
        ServiceError: what a shard refused.
    """
    tries = keepers(handles, worker_id)[:_MOST_TRIES]
    for handle in tries:
        try:
            async with asyncio.timeout(None if handle is tries[-1] else PATIENCE_SECONDS):
                return await handle.ask(lambda shard: shard.store_report(worker_id, report, keep_ms))
        except (ShardConnectionFailed, TimeoutError):  # whether it was stored or not: the latest one counts
            continue
    raise no_healthy_shards()


async def delete(handles: Sequence[ShardHandle], worker_id: str) -> None:
    """Delete the report of a worker from all shards that answer; on others, it has to expire."""
    await ask_all(handles, lambda shard: shard.store_report(worker_id, b"", 0))


async def read(handles: Sequence[ShardHandle], max_bytes: int) -> list[KeptReport]:
    """Return the latest report of each worker, as far as they fit."""
    answers = await ask_all(handles, lambda shard: shard.reports(max_bytes))
    latest: dict[str, KeptReport] = {}
    for kept in sorted((one for _, found in answers for one in found), key=lambda one: -one.reported_at_ms):
        latest.setdefault(kept.worker_id, kept)
    fitting: list[KeptReport] = []
    for kept in list(latest.values())[:MAX_REPORTS]:
        max_bytes -= len(kept.report)
        if max_bytes < 0:
            break
        fitting.append(kept)
    return fitting

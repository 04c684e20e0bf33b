"""Worker reports: each is stored on one shard, always the same while that shard answers, and read from all shards."""

from __future__ import annotations

import asyncio

from pinlater.errors import ShardConnectionFailed
from pinlater.server.backends.records import MAX_ANSWER_BYTES, MAX_REPORTS, KeptReport
from pinlater.server.backends.sharded.fan_out import PATIENCE_SECONDS, ask_all, no_healthy_shards
from pinlater.server.backends.sharded.placement import keepers
from pinlater.server.backends.sharded.shard_group import ShardGroup

_MOST_TRIES = 4


async def store(group: ShardGroup, worker_id: str, report: bytes, keep_ms: int) -> None:
    """Store a report on the first shard that answers; do not wait for a slow shard if there is another.

    With a ``keep_ms`` of 0, delete it from all shards that answer; on the others it has to expire.

    Raises:
        NoHealthyShards: no shard answers.
        ServiceError: a shard refused.
    """
    handles = group.healthy()
    if not keep_ms:
        await ask_all(handles, lambda shard: shard.store_report(worker_id, report, keep_ms))
        return
    tries = keepers(handles, worker_id)[:_MOST_TRIES]
    for handle in tries:
        try:
            async with asyncio.timeout(None if handle is tries[-1] else PATIENCE_SECONDS):
                await handle.ask(lambda shard: shard.store_report(worker_id, report, keep_ms))
                return
        except (ShardConnectionFailed, TimeoutError):  # it may have been stored: harmless, as the latest one counts
            continue
    raise no_healthy_shards()


async def read(group: ShardGroup, max_bytes: int = MAX_ANSWER_BYTES) -> list[KeptReport]:
    """Return the latest report of each worker, newest first, up to ``max_bytes``."""
    answers = await ask_all(group.healthy(), lambda shard: shard.reports(max_bytes))
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

"""Since when the jobs of queues wait."""

from __future__ import annotations

import asyncio
from typing import Any

from pinlater.errors import QueueNotFound
from pinlater.server.api.calls import missing
from pinlater.server.api.rules import check_queue_name
from pinlater.server.backends.store import Store

_AT_ONCE = 16
"""Queues that are looked into at a time, so that a look at very many keeps nobody else waiting."""


async def oldest_due(backend: Store, arguments: Any) -> dict[str, int]:
    """Return since when the job is due that has been so for longest, by queue.

    Queues with nothing due, or that are not there, are left out.

    Args:
        backend: the store; it finds each by an index, however many jobs there are.
        arguments: name the queues to look into; none: all.

    Raises:
        CallRefused, QueueNameInvalid, QueueNameTooLong: the names are missing, or no queue can be called so.
    """
    queues = arguments.queueNames
    if queues is None:
        raise missing("queueNames")
    for queue in queues:
        check_queue_name(queue)
    known = await backend.queue_names()
    asked = [queue for queue in dict.fromkeys(queues) if queue in known] if queues else sorted(known)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def look(queue: str) -> int | None:
        async with gate:
            try:
                return await backend.oldest_due_ms(queue)
            except QueueNotFound:  # deleted just now
                return None

    found = await asyncio.gather(*map(look, asked))
    return {queue: due_ms for queue, due_ms in zip(asked, found, strict=True) if due_ms is not None}

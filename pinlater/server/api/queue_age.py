"""Find the oldest due job of each queue."""

from __future__ import annotations

import asyncio
from typing import Any

from pinlater.errors import QueueNotFound
from pinlater.server.api.calls import missing
from pinlater.server.api.rules import check_queue_name
from pinlater.server.backends.store import Store

_AT_ONCE = 16
"""Queues that are queried at a time, so that a call about many queues does not delay others."""


async def oldest_due(backend: Store, arguments: Any) -> dict[str, int]:
    """Return when the oldest due job of each queue became due.

    Queues without due jobs, and queues that do not exist, are left out.

    Args:
        backend: the store, which finds each by an index.
        arguments: name the queues; none: all queues.

    Raises:
        CallRefused, QueueNameInvalid, QueueNameTooLong: the names are missing or invalid.
    """
    queues = arguments.queueNames
    if queues is None:
        raise missing("queueNames")
    for queue in queues:
        check_queue_name(queue)
    known = await backend.queue_names()
    asked = [queue for queue in dict.fromkeys(queues) if queue in known] if queues else sorted(known)
    slots = asyncio.Semaphore(_AT_ONCE)

    async def read(queue: str) -> int | None:
        async with slots:
            try:
                return await backend.oldest_due_ms(queue)
            except QueueNotFound:  # deleted just now
                return None

    found = await asyncio.gather(*map(read, asked))
    return {queue: due_ms for queue, due_ms in zip(asked, found, strict=True) if due_ms is not None}

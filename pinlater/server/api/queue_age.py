"""Find the oldest due job of each queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pinlater.server.api.calls import missing
from pinlater.server.api.rules import check_queue_name
from pinlater.server.backends.store import Store
from pinlater.server.broker.parking import Caller


async def oldest_due(backend: Store, now_ms: Callable[[], int], arguments: Any, _: Caller) -> dict[str, int]:
    """Return when the oldest due job of each queue became due.

    Queues without due jobs, and queues that do not exist, are left out.

    Args:
        backend: the store, which is asked once for all queues.
        now_ms: the clock of the store.
        arguments: those of the call; if they name no queues, all are meant.

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
    found, now = await backend.first_due(asked), now_ms()
    return {queue: due_ms for queue, due_ms in found.items() if due_ms is not None and due_ms <= now}

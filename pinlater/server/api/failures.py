"""Read the failure groups of queues."""

from __future__ import annotations

from typing import Any

from pinlater.protocol.conversion.statistics import FAILURE_GROUP
from pinlater.protocol.messages import PinLaterFailureGroup
from pinlater.server.api.concurrency_limit import ConcurrencyLimit
from pinlater.server.api.rules import check_limit, check_queue_name
from pinlater.server.backends.failure_budget import MOST_READ
from pinlater.server.backends.store import Store
from pinlater.server.broker.parking import Caller

_MOST_WAITING = 16
"""Reads that may wait; each counts up to a million jobs."""


class Failures:
    """Carries out the call that reads failure groups, one at a time.

    Args:
        backend: the store.
    """

    def __init__(self, backend: Store) -> None:
        self._backend = backend
        self._reading = ConcurrencyLimit("reading failure groups", _MOST_WAITING)

    async def read(self, arguments: Any, _: Caller) -> list[PinLaterFailureGroup]:
        """Return the largest failure groups; those of queues that do not exist are left out.

        Raises:
            QueueNameInvalid, QueueNameTooLong, UnknownError: an argument is invalid.
            NoHealthyShards: too many reads are waiting, or no shard answers.
        """
        request = arguments.request
        queues, limit = request.queueNames or (), request.limit
        for queue in queues:
            check_queue_name(queue)
        check_limit(limit)
        if not limit:  # the client only asks whether the server knows this call
            return []
        async with self._reading.slot():
            groups = await self._backend.failure_groups(queues, min(limit, MOST_READ))
        return FAILURE_GROUP.structs(groups)

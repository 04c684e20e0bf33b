"""Read figures of queues: statistics, failure groups, and since when jobs wait."""

from __future__ import annotations

from typing import Any

from pinlater.errors import UnknownError
from pinlater.model.statistics import KEPT_SECONDS, StatisticsKind
from pinlater.protocol.conversion.statistics import FAILURE_GROUP, STATISTICS
from pinlater.protocol.messages import PinLaterFailureGroup, PinLaterStatistics
from pinlater.server.api.calls import missing
from pinlater.server.api.concurrency_limit import ConcurrencyLimit
from pinlater.server.api.offload import offload
from pinlater.server.api.rules import check_limit, check_queue_name
from pinlater.server.backends.failure_budget import MOST_READ
from pinlater.server.backends.server_store import ServerStore
from pinlater.server.backends.statistics import StatisticsEntry, StatisticsQuery, record
from pinlater.server.broker.parking import Caller

MOST_STATISTICS = 20_000
"""Most statistics in a reply."""

_MOST_QUEUES = 1000
_MOST_WAITING = 16
"""Reads that may wait; each of failure groups counts up to a million jobs."""


class QueueFigures:
    """Carries out the calls that read figures of queues; of the expensive ones, one of a kind at a time."""

    def __init__(self, backend: ServerStore) -> None:
        self._backend = backend
        self._now_ms = backend.now_ms
        self._reading = ConcurrencyLimit("reading statistics", _MOST_WAITING)
        self._reading_failures = ConcurrencyLimit("reading failure groups", _MOST_WAITING)

    async def oldest_due(self, arguments: Any, _: Caller) -> dict[str, int]:
        """Return when the oldest due job of each queue became due; of all queues if the call names none.

        Queues without due jobs, and queues that do not exist, are left out.

        Raises:
            CallRefused, QueueNameInvalid, QueueNameTooLong: the names are missing or invalid.
        """
        queues = arguments.queueNames
        if queues is None:
            raise missing("queueNames")
        for queue in queues:
            check_queue_name(queue)
        known = await self._backend.queue_names()
        asked = [queue for queue in dict.fromkeys(queues) if queue in known] if queues else sorted(known)
        found, now = await self._backend.first_due(asked), self._now_ms()
        return {queue: due_ms for queue, due_ms in found.items() if due_ms is not None and due_ms <= now}

    async def failure_groups(self, arguments: Any, _: Caller) -> list[PinLaterFailureGroup]:
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
        async with self._reading_failures.slot():
            groups = await self._backend.failure_groups(queues, min(limit, MOST_READ))
        return FAILURE_GROUP.structs(groups)

    async def statistics(self, arguments: Any, _: Caller) -> list[PinLaterStatistics]:
        """Return the statistics of those of the requested periods that are still kept.

        Raises:
            UnknownError, QueueNameInvalid, QueueNameTooLong: the request is invalid, or the reply would be too long.
            NoHealthyShards: too many reads are waiting, or no shard answers.
        """
        which = self._query(arguments.request)
        async with self._reading.slot():
            found = await self._backend.read_statistics(which, MOST_STATISTICS + 1)
        if len(found) > MOST_STATISTICS:
            raise UnknownError(
                f"there are more than {MOST_STATISTICS} statistics; ask for a shorter time, for hours instead of "
                "minutes, or for fewer queues"
            )
        return await offload(len(found), _structs, found)

    def _query(self, request: Any) -> StatisticsQuery:
        kind, resolution = request.kind, request.resolutionSeconds
        if kind not in set(StatisticsKind):
            raise UnknownError(f"there are no statistics of kind {kind}; use 0 (queues), 1 (classes) or 2 (failures)")
        if resolution not in KEPT_SECONDS:
            raise UnknownError(f"there are no statistics of {resolution} s; use {' or '.join(map(str, KEPT_SECONDS))}")
        if request.sinceTimestampMillis is None:
            raise UnknownError("sinceTimestampMillis is missing: say from when on")
        queues = request.queueNames or ()
        if len(queues) > _MOST_QUEUES:
            raise UnknownError(f"{len(queues)} queues are too many for one call; name up to {_MOST_QUEUES}, or none")
        for queue in queues:
            if queue:
                check_queue_name(queue)
        now_ms, period_ms = self._now_ms(), resolution * 1000
        until_ms = now_ms if request.untilTimestampMillis is None else request.untilTimestampMillis
        since_ms = max(request.sinceTimestampMillis, now_ms - KEPT_SECONDS[resolution] * 1000)
        end_ms = min(until_ms, now_ms + period_ms)
        first_ms = since_ms // period_ms * period_ms
        return StatisticsQuery(kind, resolution, first_ms, end_ms, queues, request.name)


def _structs(found: list[StatisticsEntry]) -> list[PinLaterStatistics]:
    return STATISTICS.structs(map(record, found))

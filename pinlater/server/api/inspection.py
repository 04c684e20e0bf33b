"""Look up, count, scan and delete jobs, with limits on what one call may take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any, NamedTuple

from pinlater.errors import CountIncomplete, UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobRecord, Position, RecordPage, missing_shards
from pinlater.protocol import messages as wire
from pinlater.protocol.conversion.jobs import info_struct, page_reply, read_continuation
from pinlater.server.api import rules
from pinlater.server.api.concurrency_limit import ConcurrencyLimit
from pinlater.server.api.job_filters import narrowed, of_key
from pinlater.server.api.offload import offload
from pinlater.server.backends.body_pattern import check_pattern
from pinlater.server.backends.records import (
    JOB_OVERHEAD_BYTES,
    MAX_STATUS_CHARACTERS,
    MAX_UNIQUE_KEY_CHARACTERS,
    JobFilter,
    Once,
)
from pinlater.server.backends.store import Store
from pinlater.server.broker.broker import Broker
from pinlater.server.broker.parking import Caller

MAX_SCAN_JOBS = 10_000
"""Most jobs of one page of a scan."""

_MOST_WAITING_SEARCHES = 16
"""Searches of job bodies that may wait; each may take ``REGEX_TIMEOUT_SECONDS``."""

MAX_LOOKUP_JOBS = 10_000
"""Most jobs of one look-up."""

_SCANNED_AT_ONCE = 500
_LARGEST_JOB_BYTES = 4 * (MAX_STATUS_CHARACTERS + 2 * MAX_UNIQUE_KEY_CHARACTERS + rules.MAX_SOURCE_CHARACTERS) + 2000
"""Most bytes that a scanned job takes in a reply: four for each character of a text, and some for the rest."""

_AT_ONCE, _BODIES_AT_ONCE = 1000, 64
"""Jobs that are looked up, without or with bodies, before their size is checked."""

_SMALL_PAGE_JOBS = 100
_LARGE_PAGES = 2
"""How many larger pages are built at a time, since sending them keeps the event loop busy."""

_FEW_BODIES = 8
_SHORT_BODY_BYTES, _SHORT_BODIES = 8192, 100
_LARGE_LOOK_UPS = 2
"""How many look-ups of more than a few bodies, or many short ones, run at a time, since more would fill the memory."""


class ScanOrder(NamedTuple):
    """How a scan goes through the jobs that match: from which end, and whether it skips those that are retrying."""

    oldest_first: bool
    skips_retrying: bool


class Inspection:
    """Carries out the calls that read or delete jobs.

    Args:
        backend: the store.
        broker: deletes jobs, and parks look-ups that wait.
        priority_levels: number of priorities.
        max_bytes: most bytes of the jobs in one reply.
        max_wait_ms: longest wait for the end of jobs.
    """

    def __init__(
        self, backend: Store, broker: Broker, priority_levels: int, *, max_bytes: int, max_wait_ms: int
    ) -> None:
        self._backend = backend
        self._broker = broker
        self._priority_levels = priority_levels
        self._max_bytes = max_bytes
        self._max_wait_ms = max_wait_ms
        self._large = asyncio.Semaphore(_LARGE_LOOK_UPS)
        self._large_pages = asyncio.Semaphore(_LARGE_PAGES)
        self._search = ConcurrencyLimit("a search of job bodies", _MOST_WAITING_SEARCHES)

    async def lookup(self, arguments: Any, caller: Caller) -> dict[str, wire.PinLaterJobInfo]:
        """Look up jobs, once they have finished if the call waits for that; return those that exist, by descriptor.

        Raises:
            UnknownError: there are too many, they do not fit into a reply, or a descriptor is invalid.
        """
        request = arguments.request
        given = await offload(len(request.jobDescriptors), _unique, request.jobDescriptors)
        if len(given) > MAX_LOOKUP_JOBS:
            raise UnknownError(
                f"a look-up of {len(given)} jobs; at most {MAX_LOOKUP_JOBS} are allowed, so use several calls"
            )
        wait_seconds = rules.wait_seconds(request.waitMillis, self._max_wait_ms)
        if wait_seconds:
            await self._broker.endings.wait(given, self._unfinished, wait_seconds, caller)
        body_bytes = rules.body_bytes(request.maxBodyBytes) if request.includeBody else 0
        include_result = bool(request.includeResult)
        is_short = body_bytes <= _SHORT_BODY_BYTES and not include_result
        is_large = (body_bytes or include_result) and len(given) > (_SHORT_BODIES if is_short else _FEW_BODIES)
        async with self._large if is_large else nullcontext():
            return await self._look_up(given, body_bytes, include_result=include_result)

    async def _unfinished(self, given: Sequence[str]) -> list[str]:
        found = await self._look_up(given)
        return [text for text, info in found.items() if info.jobState in {wire.PENDING, wire.IN_PROGRESS}]

    async def _look_up(
        self, given: Sequence[str], body_bytes: int = 0, *, include_result: bool = False
    ) -> dict[str, wire.PinLaterJobInfo]:
        jobs = await offload(len(given), _parse_all, given)
        step = _BODIES_AT_ONCE if body_bytes or include_result else _AT_ONCE
        found: dict[str, wire.PinLaterJobInfo] = {}
        size = 0
        for start in range(0, len(jobs), step):
            some = jobs[start : start + step]
            records = await self._backend.lookup_jobs(some, body_bytes=body_bytes, include_result=include_result)
            infos, more = await offload(len(records), _infos_of, records)
            found |= {text: info for text, info in zip(given[start : start + step], infos, strict=True) if info}
            size += more
            if size > self._max_bytes:
                raise UnknownError(
                    f"these {len(given)} jobs exceed the {self._max_bytes} bytes of a reply (MAX_FRAME_BYTES); "
                    "look up fewer at once, or without their bodies"
                )
        return found

    async def count(self, arguments: Any, _: Caller) -> int:
        """Count the jobs that match."""
        request = arguments.request
        which = self._filter(request, is_future=bool(request.countFutureJobs))
        which = (
            which._replace(is_future=None, waits_for_key=True)
            if request.waitingForKey
            else narrowed(which, request.retrying, request.failureGroup)
        )
        which = which._replace(skips_retrying=request.retrying is False)
        async with self._search_slot(which):
            count = await self._backend.count_jobs(request.queueName, which)
        number, missing = min(int(count), 2**31 - 1), missing_shards(count)
        if missing and request.tellMissing:
            raise CountIncomplete(missing, number)
        return number

    async def scan(self, arguments: Any, _: Caller) -> wire.PinLaterScanJobsResponse:
        """Return one page of the jobs that match."""
        request = arguments.request
        position = read_continuation(request.continuation)
        which = self._filter(request, is_future=bool(request.scanFutureJobs))
        which = of_key(narrowed(which, request.retrying, request.failureGroup), request.key)
        order = ScanOrder(bool(request.oldestFirst), skips_retrying=request.retrying is False)
        limit = request.limit
        rules.check_limit(limit)
        async with self._search_slot(which), self._large_pages if limit > _SMALL_PAGE_JOBS else nullcontext():
            jobs, end = await self._page(request.queueName, which, order, min(limit, MAX_SCAN_JOBS), position)
        return page_reply(jobs, end.position if limit else None, end.looked_at, end.missing_shards)

    async def _page(
        self, queue: str, which: JobFilter, order: ScanOrder, limit: int, position: Position | None
    ) -> tuple[list[wire.PinLaterJobInfo], RecordPage]:
        """Read up to ``limit`` jobs that fit into a reply; return them and the last page of the store.

        The last page names the shards that any of the pages lacks.

        They are read in chunks, so that jobs with long statuses do not fill the memory. A search of bodies reads only
        one chunk, since its time limit applies to one call to the store. If the time is up, or too many jobs have to be
        skipped, fewer than ``limit`` are returned, or none.
        """
        found: list[wire.PinLaterJobInfo] = []
        missing: set[str] = set()
        bytes_left, read = self._max_bytes, 0
        while True:
            at_once = min(limit - len(found), _SCANNED_AT_ONCE, max(bytes_left // _LARGEST_JOB_BYTES, 1))
            page = await self._backend.scan_jobs(queue, which, at_once, position, oldest_first=order.oldest_first)
            jobs = [job for job in page.jobs if job.failure_group is None] if order.skips_retrying else page.jobs
            infos, size = await offload(len(jobs), _infos_of, jobs)
            found += infos
            bytes_left -= size
            read += len(page.jobs)
            missing.update(page.missing_shards)
            position = page.position
            is_full = len(found) >= limit or bytes_left < _LARGEST_JOB_BYTES or read >= MAX_SCAN_JOBS
            if position is None or is_full or which.body_regex:
                return found, page._replace(missing_shards=tuple(missing))

    async def delete(self, arguments: Any, once: Once) -> int:
        """Delete jobs that match, or the named jobs; return how many."""
        request = arguments.request
        which = self._filter(request, is_future=None)
        rules.check_limit(request.limit)
        if request.jobDescriptors is not None:
            names = request.jobDescriptors
            jobs = await offload(len(names), rules.jobs_of, request.queueName, names)
            return await self._broker.delete_these(request.queueName, jobs, request.jobState, once=once)
        async with self._search_slot(which):
            return await self._broker.delete(request.queueName, which, request.limit, once=once)

    def _filter(self, request: Any, *, is_future: bool | None) -> JobFilter:
        rules.check_queue_name(request.queueName)
        rules.check_state(request.jobState)
        rules.check_priority(request.priority, self._priority_levels)
        return JobFilter(request.jobState, request.priority, is_future, request.bodyRegexToMatch)

    @asynccontextmanager
    async def _search_slot(self, which: JobFilter) -> AsyncIterator[None]:
        """Compile and search one body pattern at a time, since expensive ones would use up all threads."""
        if not which.body_regex:
            yield
            return
        async with self._search.slot():
            await asyncio.to_thread(check_pattern, which.body_regex)
            yield


def _unique(texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _infos_of(records: Sequence[JobRecord | None]) -> tuple[list[Any], int]:
    """Convert records for the wire; return them and an upper bound of their encoded size."""
    infos = [None if record is None else info_struct(record) for record in records]
    return infos, sum(_size_of(record) for record in records if record is not None)


def _parse_all(texts: Sequence[str]) -> list[JobDescriptor]:
    return [JobDescriptor.parse(text) for text in texts]


def _size_of(record: JobRecord) -> int:
    keys = record.unique, record.key and record.key.text
    texts = (record.descriptor, record.descriptor, record.status, record.claim, *keys)
    return (
        JOB_OVERHEAD_BYTES
        + sum(len(text.encode()) for text in texts if text)
        + len(record.body or b"")
        + len(record.result or b"")
    )

"""The calls that look at jobs, or take out those that a look finds: bounded, whatever is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from pinlater.errors import UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobRecord, Position
from pinlater.protocol import messages as wire
from pinlater.protocol.conversion.jobs import info_struct, page_reply, read_continuation
from pinlater.protocol.conversion.values import default
from pinlater.server.api import rules
from pinlater.server.api.concurrency_limit import Turnstile
from pinlater.server.api.offload import aside
from pinlater.server.backends.body_pattern import check_pattern
from pinlater.server.backends.records import (
    JOB_OVERHEAD_BYTES,
    MAX_STATUS_CHARACTERS,
    MAX_UNIQUE_KEY_CHARACTERS,
    IdempotencyKey,
    JobFilter,
)
from pinlater.server.backends.store import Store

MAX_SCAN_JOBS = 10_000
"""A page of a scan has at most this many jobs."""

_MOST_WAITING_SEARCHES = 16
"""Searches of bodies that wait for one to end, each of which may take ``REGEX_TIMEOUT_SECONDS``."""

MAX_LOOK_UP_JOBS = 10_000
"""A look-up asks for at most this many jobs."""

_SCANNED_AT_ONCE = 500
_LARGEST_JOB_BYTES = 4 * (MAX_STATUS_CHARACTERS + MAX_UNIQUE_KEY_CHARACTERS + rules.MAX_SOURCE_CHARACTERS) + 2000
"""Most bytes that a job of a scan takes in an answer: four for each character of a text, and some for the rest."""

_AT_ONCE, _BODIES_AT_ONCE = 1000, 64
"""Jobs that are looked up before their size is looked at."""

_SMALL_PAGE_JOBS = 100
_LARGE_PAGES = 2
"""Pages of more jobs that are made at a time: to send them is the event loop's work, and it has others to serve."""

_FEW_BODIES = 8
_LARGE_LOOK_UPS = 2
"""Look-ups of more than a few bodies that are made at a time: many at once would fill the memory."""


class Inspection:
    """Carries them out.

    Args:
        backend: the store.
        priority_levels: priorities are 1 to this.
        max_bytes: of what is looked up or scanned with one call.
    """

    def __init__(self, backend: Store, priority_levels: int, max_bytes: int) -> None:
        self._backend = backend
        self._priority_levels = priority_levels
        self._max_bytes = max_bytes
        self._large = asyncio.Semaphore(_LARGE_LOOK_UPS)
        self._large_pages = asyncio.Semaphore(_LARGE_PAGES)
        self._search = Turnstile("a search of bodies", _MOST_WAITING_SEARCHES)

    async def lookup(self, arguments: Any) -> dict[str, wire.PinLaterJobInfo]:
        """Return the jobs that are there, by descriptor.

        Raises:
            UnknownError: they are more than an answer holds, or one is no descriptor.
        """
        request = arguments.request
        given = await aside(len(request.jobDescriptors), _unique, request.jobDescriptors)
        if len(given) > MAX_LOOK_UP_JOBS:
            raise UnknownError(
                f"a look-up of {len(given)} jobs; at most {MAX_LOOK_UP_JOBS} are allowed, so make several calls"
            )
        if not request.includeBody or len(given) <= _FEW_BODIES:
            return await self._look_up(given, include_body=bool(request.includeBody))
        async with self._large:
            return await self._look_up(given, include_body=True)

    async def _look_up(self, given: Sequence[str], *, include_body: bool) -> dict[str, wire.PinLaterJobInfo]:
        jobs = await aside(len(given), _parse_all, given)
        step = _BODIES_AT_ONCE if include_body else _AT_ONCE
        found: dict[str, wire.PinLaterJobInfo] = {}
        size = 0
        for start in range(0, len(jobs), step):
            records = await self._backend.lookup_jobs(jobs[start : start + step], include_body=include_body)
            infos, more = await aside(len(records), _infos_of, records)
            found |= {text: info for text, info in zip(given[start : start + step], infos, strict=True) if info}
            size += more
            if size > self._max_bytes:
                raise UnknownError(
                    f"these {len(given)} jobs are more than the {self._max_bytes} bytes that an answer may have "
                    "(MAX_FRAME_BYTES); ask for fewer at once, or without their bodies"
                )
        return found

    async def count(self, arguments: Any) -> int:
        """Return how many jobs match."""
        request = arguments.request
        which = self._filter(request, is_future=bool(request.countFutureJobs))
        async with self._turn(which):
            return min(await self._backend.count_jobs(request.queueName, which), 2**31 - 1)

    async def scan(self, arguments: Any) -> wire.PinLaterScanJobsResponse:
        """Return a page of the jobs that match."""
        request = arguments.request
        position = read_continuation(request.continuation)
        which = self._filter(request, is_future=bool(request.scanFutureJobs))
        limit = default(request.limit, 100)
        rules.check_limit(limit)
        async with self._large_pages if limit > _SMALL_PAGE_JOBS else nullcontext(), self._turn(which):
            jobs, position = await self._page(request.queueName, which, min(limit, MAX_SCAN_JOBS), position)
        return page_reply(jobs, position if limit else None)

    async def _page(
        self, queue: str, which: JobFilter, limit: int, position: Position | None
    ) -> tuple[list[wire.PinLaterJobInfo], Position | None]:
        """Return up to ``limit`` jobs, as many as an answer holds, and where the next ones begin; None: nowhere.

        They are read by the hundreds, so that jobs with long statuses do not fill the memory. A search of bodies reads
        one page only: its time limit is that of one call to the store.
        """
        found: list[wire.PinLaterJobInfo] = []
        room = self._max_bytes
        while True:
            at_once = min(limit - len(found), _SCANNED_AT_ONCE, max(room // _LARGEST_JOB_BYTES, 1))
            page = await self._backend.scan_jobs(queue, which, at_once, position)
            infos, size = await aside(len(page.jobs), _infos_of, page.jobs)
            found += infos
            room -= size
            position = page.position
            if position is None or len(found) >= limit or room < _LARGEST_JOB_BYTES or which.body_regex:
                return found, position

    async def delete(self, arguments: Any, once: IdempotencyKey | None) -> int:
        """Take out jobs that match, or those that are named; return how many."""
        request = arguments.request
        request.priority = default(request.priority, 1)
        which = self._filter(request, is_future=None)
        limit = default(request.limit, 1000)
        rules.check_limit(limit)
        if request.jobDescriptors is not None:
            names = request.jobDescriptors
            jobs = await aside(len(names), rules.jobs_of, request.queueName, names)
            return await self._backend.delete_these_jobs(request.queueName, jobs, request.jobState, once=once)
        async with self._turn(which):
            return await self._backend.delete_jobs(request.queueName, which, limit, once=once)

    def _filter(self, request: Any, *, is_future: bool | None) -> JobFilter:
        rules.check_queue_name(request.queueName)
        rules.check_state(request.jobState)
        rules.check_priority(request.priority, self._priority_levels)
        return JobFilter(request.jobState, request.priority, is_future, request.bodyRegexToMatch)

    @asynccontextmanager
    async def _turn(self, which: JobFilter) -> AsyncIterator[None]:
        """Compile and search for one body pattern at a time: expensive ones would take all threads."""
        if not which.body_regex:
            yield
            return
        async with self._search.passed():
            await asyncio.to_thread(check_pattern, which.body_regex)
            yield


def _unique(texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _infos_of(records: Sequence[JobRecord | None]) -> tuple[list[Any], int]:
    """Return records as the wire has them, and at least as many bytes as they take there."""
    infos = [None if record is None else info_struct(record) for record in records]
    return infos, sum(_size_of(record) for record in records if record is not None)


def _parse_all(texts: Sequence[str]) -> list[JobDescriptor]:
    return [JobDescriptor.parse(text) for text in texts]


def _size_of(record: JobRecord) -> int:
    texts = (record.descriptor, record.descriptor, record.status, record.claim, record.unique)
    return JOB_OVERHEAD_BYTES + sum(len(text.encode()) for text in texts if text) + len(record.body or b"")

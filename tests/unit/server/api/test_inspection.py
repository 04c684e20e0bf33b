"""Scans and look-ups: how many run at once. What is counted."""

import asyncio
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from pinlater.model.jobs import JobRecord, Position, RecordPage
from pinlater.protocol import messages as wire
from pinlater.server.api.inspection import Inspection
from pinlater.server.backends.records import JobFilter
from tests.support.waiting import until

JOB = JobRecord("q:s1:p1:1", 0, 2, 2, "", 5, 5, 5, None, b"body", None)


class Store:
    """Has pages of as many jobs as are wanted, when it is told to give them."""

    def __init__(self):
        self.begun = []
        self.go_on = asyncio.Event()

    async def scan_jobs(self, queue, which, limit, position, *, oldest_first):
        assert not oldest_first
        self.begun.append(limit)
        await self.go_on.wait()
        seen = position.local_id if position else 0
        return RecordPage([JOB] * limit, Position(5, seen + limit))


def scan(limit, regex=None):
    arguments = wire.arguments_of("scanJobs")(wire.RequestContext("me"))
    arguments.request = wire.PinLaterScanJobsRequest("q", wire.PENDING, limit=limit, bodyRegexToMatch=regex)
    return arguments


@pytest.mark.parametrize("limit", [150, 3000])
def test_large_pages_are_made_two_at_a_time_and_small_ones_go_past_them(limit):
    async def act():
        store = Store()
        inspection = Inspection(store, None, 3, max_bytes=1 << 24, max_wait_ms=0)
        looks = [asyncio.create_task(inspection.scan(scan(wanted), None)) for wanted in (*[limit] * 5, 20, 20)]
        for _ in range(20):
            await asyncio.sleep(0)
        read_at_once = min(limit, 500)
        assert sorted(store.begun) == [20, 20, read_at_once, read_at_once]
        store.go_on.set()
        async with asyncio.timeout(60):
            pages = await asyncio.gather(*looks)
        assert [len(page.scannedJobs) for page in pages] == [limit] * 5 + [20, 20]
        assert pages[0].scannedJobs[-1].body == b"body"

    asyncio.run(act())


def test_searches_that_wait_for_another_one_hold_up_no_large_page():
    async def act():
        store = Store()
        inspection = Inspection(store, None, 3, max_bytes=1 << 24, max_wait_ms=0)
        looks = [asyncio.create_task(inspection.scan(scan(200, "x"), None)) for _ in range(4)]
        async with asyncio.timeout(60):
            await until(lambda: store.begun)
            looks.append(asyncio.create_task(inspection.scan(scan(300), None)))
            for _ in range(20):
                await asyncio.sleep(0)
            assert store.begun == [200, 300]
            store.go_on.set()
            await asyncio.gather(*looks)

    asyncio.run(act())


@pytest.mark.parametrize(
    ("retrying", "which"),
    [
        (None, JobFilter(wire.PENDING, is_future=False)),
        (True, JobFilter(wire.PENDING, is_retrying=True)),
        (False, JobFilter(wire.PENDING, is_future=False, skips_retrying=True)),
    ],
)
def test_the_store_counts_with_or_without_retrying_jobs_at_once(retrying, which):
    """Two counts that end at their bounds cannot be subtracted."""
    store = AsyncMock()
    store.count_jobs.return_value = 7
    request = wire.PinLaterGetJobCountRequest("q", wire.PENDING, countFutureJobs=False, retrying=retrying)
    inspection = Inspection(store, None, 3, max_bytes=1 << 24, max_wait_ms=0)
    assert asyncio.run(inspection.count(SimpleNamespace(request=request), None)) == 7
    store.count_jobs.assert_awaited_once_with("q", which)

"""Worker reports: limits on reading them."""

import asyncio

import pytest

from pinlater.errors import NoHealthyShards
from pinlater.server.api.worker_reports import WorkerReports


class SlowBackend:
    """Has no reports, and says so when it is let."""

    def __init__(self):
        self.gate, self.asked, self.most = asyncio.Event(), 0, 0

    async def reports(self, max_bytes):
        self.asked += 1
        self.most = max(self.most, self.asked)
        await self.gate.wait()
        self.asked -= 1
        return []


def test_report_reads_run_one_at_a_time_and_too_many_are_refused():
    async def main():
        backend = SlowBackend()
        reports = WorkerReports(backend, 1000)
        looks = [asyncio.create_task(reports.read(None, None)) for _ in range(17)]
        await asyncio.sleep(0)
        with pytest.raises(NoHealthyShards, match="reading the worker reports"):
            await reports.read(None, None)
        backend.gate.set()
        assert await asyncio.gather(*looks) == [[]] * 17
        assert backend.most == 1
        assert await reports.read(None, None) == []

    asyncio.run(main())

"""The monitor while the store does not answer."""

import asyncio
import logging

from pinlater.errors import NoHealthyShards
from pinlater.server.background.monitor import Monitor
from pinlater.server.config.settings import Settings
from pinlater.server.metrics import Metrics


class Store:
    """As much of a broker and a backend as the monitor asks; away for some of its calls."""

    def __init__(self, away):
        self._away = away
        self.calls = 0

    async def reap(self, limit, *, server_age_ms, quiet_ms):
        self.calls += 1
        if self.calls in self._away:
            raise NoHealthyShards("no shard answers")
        return []

    async def collect_finished(self, succeeded_ttl_ms, failed_ttl_ms, limit):
        return []

    async def forget_results(self, limit):
        return 0


def test_a_store_that_is_away_is_asked_again_and_complained_of_once(caplog):
    store = Store(away={*range(2, 6), *range(8, 11)})
    monitor = Monitor(store, store, Settings(monitor_interval_seconds=0.001), Metrics())

    async def run():
        task = asyncio.create_task(monitor.run())
        async with asyncio.timeout(20):
            while store.calls < 12:
                await asyncio.sleep(0.001)
        task.cancel()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert [record.getMessage().count("no shard answers") for record in caplog.records] == [1, 1]

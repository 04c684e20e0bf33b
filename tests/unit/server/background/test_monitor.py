"""The monitor while the store does not answer, and what it counts."""

import asyncio
import contextlib
import logging

import pytest

from pinlater.errors import NoHealthyShards
from pinlater.model.failure_groups import CLAIM_EXPIRED
from pinlater.model.statistics import StatisticsKind
from pinlater.server.backends.records import Expired
from pinlater.server.backends.statistics import FAILED
from pinlater.server.backends.statistics_buffer import StatisticsBuffer
from pinlater.server.background.monitor import Monitor
from pinlater.server.background.stall_detector import StallDetector
from pinlater.server.config.settings import Settings
from pinlater.server.metrics import Metrics
from pinlater.server.peer_processes.server_rank import ServerRank
from tests.support.waiting import until


class Store:
    """As much of a broker and a backend as the monitor asks; away for some of its calls."""

    def __init__(self, away, expired=()):
        self._away = away
        self._expired = list(expired)
        self.calls = 0
        self.polls = 0
        self.reap_again = 1
        self.adjusted = 0
        self.now_ms = lambda: 0

    async def poll_all(self):
        self.polls += 1

    async def reap(self, limit, *, server_age_ms, quiet_ms, asked_at):
        self.calls += 1
        if self.calls in self._away:
            raise NoHealthyShards("no shard answers")
        if self.calls > self.reap_again:
            self._expired = []
        return self._expired

    async def collect_finished(self, succeeded_ttl_ms, failed_ttl_ms, limit):
        return []

    async def forget_results(self, limit):
        return 0

    async def forget_statistics(self, limit):
        return 0

    async def relay_messages(self):
        pass

    def is_limited(self, queue):
        return queue == "limited"

    async def adjust_shards(self, is_limited):
        self.adjusted += is_limited("limited") and not is_limited("other")


async def run_until(monitor, store, calls):
    """Run a monitor until it has asked a store so often."""
    task = asyncio.create_task(monitor.run())
    await until(lambda: store.calls >= calls)
    task.cancel()


def test_a_store_that_is_away_is_asked_again_and_complained_of_once(caplog):
    store = Store(away={*range(2, 6), *range(8, 11)})
    monitor = Monitor(store, store, Settings(monitor_interval_seconds=0.001), Metrics(), StatisticsBuffer())

    with caplog.at_level(logging.WARNING):
        asyncio.run(run_until(monitor, store, 12))
    assert [record.getMessage().count("no shard answers") for record in caplog.records] == [1, 1]


def test_each_of_several_servers_works_at_its_turns_only():
    store, clock = Store(away=()), [0]
    store.now_ms = lambda: clock[0]
    turns = ServerRank(1, 3)

    async def run():
        monitor = Monitor(
            store,
            store,
            Settings(monitor_interval_seconds=1),
            Metrics(),
            StatisticsBuffer(),
            rank=lambda: turns,
        )
        slept = []

        async def sleep(seconds):
            slept.append(seconds)
            clock[0] += round(seconds * 1000)
            if len(slept) == 4:
                raise asyncio.CancelledError

        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(asyncio.CancelledError):
            patch.setattr("pinlater.server.background.monitor.asyncio.sleep", sleep)
            await monitor._run(StallDetector())
        return slept

    assert asyncio.run(run()) == [1.0, 3.0, 3.0, 3.0]
    assert store.calls == store.adjusted == 4


def test_all_queues_are_polled_at_each_turn_not_with_each_batch():
    store = Store(away=(), expired=[Expired("mail", 3, 1)])
    settings = Settings(monitor_interval_seconds=3600.0, monitor_batch_size=1)
    store.reap_again = 3
    monitor = Monitor(store, store, settings, Metrics(), StatisticsBuffer())

    asyncio.run(run_until(monitor, store, 4))
    assert store.polls == 1


def test_expired_claims_count_as_failures_of_their_group():
    store, statistics = Store(away=(), expired=[Expired("mail", 3, 1)]), StatisticsBuffer()
    monitor = Monitor(store, store, Settings(monitor_interval_seconds=0.001), Metrics(), statistics)

    asyncio.run(run_until(monitor, store, 2))
    assert statistics.take()[StatisticsKind.FAILURE, "mail", str(CLAIM_EXPIRED.group)][FAILED] == 4

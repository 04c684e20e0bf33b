"""Stalls of the server: how they are detected, and the grace period that follows."""

import asyncio

import pytest

from pinlater.server.backends.statistics_buffer import StatisticsBuffer
from pinlater.server.background.monitor import Monitor
from pinlater.server.background.stall_detector import GracePeriod, StallDetector
from pinlater.server.clock import elapsed_seconds
from pinlater.server.config.settings import Settings
from pinlater.server.metrics import Metrics
from tests.support.waiting import until


class Clocks:
    """Seconds that pass when a test says so: those of the machine, and those that it shows."""

    def __init__(self):
        self.elapsed = self.wall = 1000.0

    def pass_by(self, seconds, wall=None):
        self.elapsed += seconds
        self.wall += seconds if wall is None else wall


@pytest.fixture
def clocks():
    return Clocks()


@pytest.fixture
def stalls(clocks):
    return StallDetector(lambda: clocks.elapsed, lambda: clocks.wall)


def run_on(clocks, stalls, seconds):
    """Let time pass as it does for a process that runs; return what claims are given at the end."""
    for _ in range(int(seconds * 5)):
        clocks.pass_by(0.2)
        stalls.grace_period()
    return stalls.grace_period()


def test_it_begins_with_a_start(clocks, stalls):
    assert stalls.grace_period() == GracePeriod(0, 10_000)
    assert run_on(clocks, stalls, 60).age_ms == pytest.approx(60_000, abs=10)


def test_a_standstill_is_noticed_at_once_and_is_like_a_start(clocks, stalls, caplog):
    run_on(clocks, stalls, 60)
    clocks.pass_by(30)
    assert stalls.grace_period() == GracePeriod(0, 10_000)
    assert "this server was stalled for 30.0 s" in caplog.text
    later = run_on(clocks, stalls, 3)
    assert (later.age_ms, later.quiet_ms) == (pytest.approx(3000, abs=10), pytest.approx(10_000, abs=10))


def test_a_clock_that_was_set_right_after_a_pause_tells_of_it(clocks, stalls, caplog):
    run_on(clocks, stalls, 60)
    clocks.pass_by(0.2, wall=30)
    assert stalls.grace_period() == GracePeriod(0, 10_000)
    assert "clock was set forward by 30.0 s" in caplog.text
    assert "stalled" not in caplog.messages[0]


def test_a_clock_that_is_set_back_is_no_standstill(clocks, stalls):
    run_on(clocks, stalls, 60)
    clocks.pass_by(0.2, wall=-30)
    assert stalls.grace_period().age_ms > 59_000


def test_a_server_that_stalls_now_and_then_still_ends_claims(clocks, stalls):
    run_on(clocks, stalls, 60)
    for _ in range(5):
        clocks.pass_by(1.5)
        assert stalls.grace_period().age_ms == 0
        found = run_on(clocks, stalls, 6.2)
        assert found.age_ms >= found.quiet_ms


def test_a_short_stall_does_not_cut_the_time_after_a_long_one(clocks, stalls):
    run_on(clocks, stalls, 60)
    clocks.pass_by(30)
    run_on(clocks, stalls, 2)
    clocks.pass_by(1.2)
    age_ms, quiet_ms = stalls.grace_period()
    assert (age_ms, quiet_ms) == (0, pytest.approx(7000, abs=10))


def test_the_monitor_reads_the_server_age_before_each_round(monkeypatch):
    asked, read_at = [], []

    class Store:
        async def reap(self, _, *, server_age_ms, quiet_ms, asked_at):
            assert asked_at <= read_at[-1], "a stall between both would neither be noticed nor come after it"
            asked.append((server_age_ms, quiet_ms))
            return []

        async def collect_finished(self, *_):
            return []

        def now_ms(self):
            return 0

        async def forget_results(self, *_):
            return 0

        async def forget_statistics(self, *_):
            return 0

    class FixedStall(StallDetector):
        def grace_period(self):
            read_at.append(elapsed_seconds())
            return GracePeriod(len(asked), 7)

    monkeypatch.setattr("pinlater.server.background.monitor.StallDetector", FixedStall)
    store = Store()
    monitor = Monitor(store, store, Settings(monitor_interval_seconds=0.001), Metrics(), StatisticsBuffer())

    async def run():
        task = asyncio.create_task(monitor.run())
        await until(lambda: len(asked) >= 3)
        task.cancel()

    asyncio.run(run())
    assert asked[:3] == [(0, 7), (1, 7), (2, 7)]

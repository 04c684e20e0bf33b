"""The time of shared stores: that of the shards, whatever this machine's clock says."""

import pytest

from pinlater.errors import ShardConnectionFailed
from pinlater.server.backends.fleet import StoreClock
from tests.unit.fleet_fakes import FleetBench


def test_before_any_shard_has_answered_the_machine_has_to_do():
    assert StoreClock(lambda: 1000.0).now_ms() // 100 == 10_000


def test_the_first_answer_counts_at_once():
    clock = StoreClock(lambda: 1000.0)
    clock.learn([])
    clock.learn([60_000.0])
    assert clock.now_ms() // 100 == 10_600


def test_later_ones_are_approached_without_a_step():
    clock = StoreClock(lambda: 1000.0)
    clock.learn([60_000.0])
    clock.learn([0.0])
    assert clock.now_ms() // 100 == 10_600


def test_one_shard_that_is_far_off_changes_little():
    clock = StoreClock(lambda: 1000.0)
    clock.learn([5.0, 10**9, 6.0])
    assert 1_000_000 <= clock.now_ms() < 1_000_500


@pytest.fixture
def fleet():
    bench = FleetBench()
    yield bench
    bench.end()


def test_a_fleet_tells_its_shards_time(fleet):
    for shard in fleet.shards.values():
        shard.ahead_ms = 50_000.0
    clock = StoreClock(lambda: 1000.0)
    fleet.learn_time(clock)
    assert clock.now_ms() // 100 == 10_500


def test_a_dead_fleet_leaves_the_clock_alone(fleet, caplog):
    clock = StoreClock(lambda: 1000.0)
    for shard in fleet.shards.values():
        shard.error = ShardConnectionFailed("gone")
    fleet.learn_time(clock)
    assert clock.now_ms() // 100 == 10_000
    fleet.learn_time(clock)
    assert caplog.text.count("no shard tells its time") == 1
    for error in (None, ShardConnectionFailed("gone")):
        for shard in fleet.shards.values():
            shard.error = error
        fleet.learn_time(clock)
    assert caplog.text.count("no shard tells its time") == 2

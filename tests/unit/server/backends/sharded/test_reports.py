"""Several shards as one store: reports of workers."""

import asyncio

import pytest

from pinlater.errors import NoHealthyShards, ShardConnectionFailed
from pinlater.server.backends.records import MAX_REPORTS
from pinlater.server.backends.sharded import reports
from tests.unit.server.backends.sharded.fake_shards import specs_of


def homes(fleet, worker):
    return {name for name, shard in fleet.shards.items() if worker in shard.reports_by_worker}


def reported(fleet):
    return {one.worker_id: one.report for one in fleet.reports()}


def test_a_report_is_on_one_shard_always_the_same(fleet):
    for _ in range(3):
        for number in range(30):
            fleet.store_report(f"w{number}", b"x", 1000)
    found = [homes(fleet, f"w{number}") for number in range(30)]
    assert all(len(home) == 1 for home in found)
    assert set().union(*found) == {"1", "2", "3"}
    assert len(reported(fleet)) == 30


def test_another_shard_takes_it_when_that_one_does_not_answer_and_the_newest_wins(fleet):
    fleet.store_report("w", b"old", 1000)
    (home,) = homes(fleet, "w")
    fleet.shards[home].error = ShardConnectionFailed("gone")
    fleet.store_report("w", b"new", 1000)
    assert reported(fleet) == {"w": b"new"}
    (other,) = homes(fleet, "w") - {home}
    fleet.shards[home].error = None
    fleet.run(fleet.shards[other].store_report("w", b"new", 0))
    fleet.shards[other].ahead_ms = 5
    fleet.run(fleet.shards[other].store_report("w", b"new", 1000))
    for _ in range(10):  # in whatever order they answer
        assert reported(fleet) == {"w": b"new"}


def test_a_shard_that_hangs_holds_up_no_report(fleet, monkeypatch):
    monkeypatch.setattr(reports, "PATIENCE_SECONDS", 0.01)
    fleet.store_report("w", b"old", 1000)
    (home,) = homes(fleet, "w")
    fleet.shards[home].gate = asyncio.Event()
    fleet.store_report("w", b"new", 1000)
    assert len(homes(fleet, "w") - {home}) == 1


def test_a_worker_that_has_ended_is_forgotten_everywhere(fleet):
    for shard in fleet.shards.values():
        fleet.run(shard.store_report("w", b"x", 1000))
    fleet.shards["2"].error = ShardConnectionFailed("gone")
    fleet.store_report("w", b"", 0)
    assert homes(fleet, "w") == {"2"}
    assert reported(fleet) == {}


def test_a_shard_that_is_emptied_gets_none_while_there_is_another(fleet):
    one, two, three = specs_of("1", "2", "3")
    fleet.update(one._replace(is_dequeue_only=True), two, three)
    for number in range(30):
        fleet.store_report(f"w{number}", b"x", 1000)
    assert not fleet.shards["1"].reports_by_worker
    for name in "23":
        fleet.shards[name].error = ShardConnectionFailed("gone")
    fleet.store_report("w", b"x", 1000)
    assert homes(fleet, "w") == {"1"}


def test_no_shard_answers(fleet):
    for shard in fleet.shards.values():
        shard.error = ShardConnectionFailed("gone")
    with pytest.raises(NoHealthyShards):
        fleet.store_report("w", b"x", 1000)
    with pytest.raises(NoHealthyShards):
        fleet.reports()


def test_the_newest_come_as_far_as_they_fit(fleet):
    for shard, worker in zip(fleet.shards.values(), "abc", strict=True):
        shard.ahead_ms = ord(worker)
        fleet.run(shard.store_report(worker, b"x" * 100, 1000))
    assert [one.worker_id for one in fleet.reports()] == ["c", "b", "a"]
    assert [one.worker_id for one in fleet.reports(299)] == ["c", "b"]
    for number in range(MAX_REPORTS):
        fleet.run(fleet.shards["1"].store_report(f"w{number}", b"", 1000))
    assert len(fleet.reports()) == MAX_REPORTS

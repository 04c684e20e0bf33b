"""Several shards as one store: statistics."""

import pytest

from pinlater.errors import NoHealthyShards, ShardConnectionFailed
from pinlater.server.backends.sharded.shard import ShardUnreachable
from pinlater.server.backends.statistics import StatisticsEntry, StatisticsKey, StatisticsQuery

KEY = StatisticsKey(60, 0, 0, "mail", "")
WHICH = StatisticsQuery(0, 60, 0, 60_000)


def add(fleet, count=1):
    fleet.add_statistics([StatisticsEntry(KEY, {0: count})])


def home(fleet):
    (name,) = {name for name, shard in fleet.shards.items() if shard.statistics}
    return fleet.shards[name]


def counts(fleet):
    return [counts for _, counts in fleet.read_statistics(WHICH, 10)]


def test_all_are_on_one_shard(fleet):
    for _ in range(5):
        add(fleet)
    assert len(home(fleet).statistics) == 5


def test_another_shard_takes_them_when_that_one_cannot_be_reached_and_both_are_read(fleet):
    add(fleet)
    first = home(fleet)
    first.error = ShardUnreachable("gone")
    add(fleet, 2)
    assert counts(fleet) == [{0: 2}]
    first.error = None
    assert counts(fleet) == [{0: 3}]


def test_what_may_have_been_stored_is_not_stored_elsewhere(fleet):
    add(fleet)
    home(fleet).error = ShardConnectionFailed("no answer")
    add(fleet)
    assert [len(shard.statistics) for shard in fleet.shards.values()].count(0) == 2


def test_without_a_shard_nothing_is_added(fleet):
    for shard in fleet.shards.values():
        shard.error = ShardUnreachable("gone")
    with pytest.raises(NoHealthyShards):
        add(fleet)

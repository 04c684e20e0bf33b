"""The list of a store's servers: a few shards keep it."""

import pytest

from pinlater.errors import NoHealthyShards, ShardConnectionFailed
from pinlater.server.backends.listeners import Listener
from pinlater.server.backends.sharded import meet_servers
from tests.unit.server.backends.sharded.fake_shards import specs_of


def meet(fleet, name):
    me = Listener(name, "127.0.0.1", 9, b"secret")
    return {listener.id for listener in fleet.run(meet_servers(fleet.fleet.group, me, 1000))}


def test_however_many_shards_there_are_three_keep_the_list(fleet):
    fleet.update(*specs_of("10", "9", "3", "2", "1"))
    assert meet(fleet, b"one") == set()
    assert sorted(fleet.asked_for("meet")) == ["1", "2", "3"]
    assert meet(fleet, b"two") == {b"one"}


def test_servers_find_each_other_by_one_of_the_three(fleet):
    meet(fleet, b"one")
    for name in "12":
        fleet.shards[name].error = ShardConnectionFailed("gone")
    assert meet(fleet, b"two") == {b"one"}
    fleet.shards["3"].error = ShardConnectionFailed("gone")
    with pytest.raises(NoHealthyShards):
        meet(fleet, b"three")

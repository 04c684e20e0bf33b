"""Turns of servers: together they do at each interval what one would do alone."""

from itertools import pairwise

import pytest

from pinlater.server.peer_processes.server_rank import MOST_TURNS, ServerRank


def turns_of(rank, seconds, interval):
    """Return when a server has its turns, in seconds from 0 on, if a turn takes no time."""
    now, turns = 0.0, []
    while now < seconds:
        now += rank.seconds_until_turn(round(now * 1000), interval)
        turns.append(round(now, 3))
    return turns


def test_a_server_alone_has_a_turn_at_each_interval():
    assert turns_of(ServerRank(), 3, 0.5) == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]


@pytest.mark.parametrize("servers", [2, 3])
def test_at_each_interval_one_of_several_servers_has_its_turn(servers):
    turns = sorted(turn for rank in range(servers) for turn in turns_of(ServerRank(rank, servers), 12, 2.0))
    assert turns[:6] == [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]


def test_many_servers_wait_no_longer_since_some_may_have_died():
    turns = turns_of(ServerRank(7, 20), 30, 1.0)
    assert {round(after - before, 3) for before, after in pairwise(turns)} == {MOST_TURNS}


def test_a_turn_that_took_long_costs_no_further_one():
    rank = ServerRank(1, 3)  # its turns begin at 1, 4, 7 ...
    assert rank.seconds_until_turn(1_000, 1.0) == 3.0
    assert rank.seconds_until_turn(1_400, 1.0) == pytest.approx(2.6)
    assert rank.seconds_until_turn(5_000, 1.0) == 2.0

"""Pools of job processes: what ``--queue`` says, whose turn it is, and where each has its part of the board."""

from collections import Counter

import pytest

from pinlater.errors import ConfigError
from pinlater.worker.pools import JobPool, parse_pools
from pinlater.worker.session.weighted_round_robin import WeightedRoundRobin
from pinlater.worker.shared import Shared

DEFAULT = JobPool("jobs", 5, {})


@pytest.mark.parametrize(
    ("texts", "pools"),
    [
        ([], [DEFAULT]),
        (["a", "b:3"], [JobPool("jobs", 5, {"a": 1, "b": 3})]),
        (["a,b:100"], [JobPool("jobs", 5, {"a": 1, "b": 100})]),
        (["a=4"], [JobPool("jobs of a", 4, {"a": 1})]),
        (["a=4", "b,c:3=1"], [JobPool("jobs of a", 4, {"a": 1}), JobPool("jobs of b,c", 1, {"b": 1, "c": 3})]),
        (["a=2", "b"], [JobPool("jobs", 5, {"b": 1}), JobPool("jobs of a", 2, {"a": 1})]),
    ],
)
def test_what_the_option_says(texts, pools):
    assert parse_pools(texts, 5) == tuple(pools)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["e-mail"], "--queue e-mail: a queue name may only have letters, digits and underscores"),
        ([""], "--queue : a queue name"),
        (["a,,b"], "--queue a,,b: a queue name"),
        (["a, b"], "--queue a, b: a queue name"),
        (["a", "b,a"], "--queue b,a: queue a is given twice"),
        (["a,a=2"], "--queue a,a=2: queue a is given twice"),
        (["a:0"], "--queue a:0: the weight of a must be a number from 1 to 100, not '0'"),
        (["a:101"], "the weight of a must be a number from 1 to 100, not '101'"),
        (["a:"], "the weight of a must be a number from 1 to 100, not ''"),
        (["a:1:2"], "not '1:2'"),
        (["a:٣"], "not '٣'"),
        (["a="], "--queue a=: the number after = must be a number from 1 to 256, not ''"),
        (["a=0"], "not '0'"),
        (["a=257"], "not '257'"),
        (["a=1=2"], "not '1=2'"),
        (["a=" + "9" * 5000], "must be a number from 1 to 256"),
    ],
)
def test_what_is_wrong_is_said(texts, message):
    with pytest.raises(ConfigError) as caught:
        parse_pools(texts, 5)
    assert message in str(caught.value)


def test_a_pool_in_words():
    assert JobPool("jobs", 1).describe(["a", "b"]) == "1 process for queues a, b"
    assert JobPool("jobs", 2, {"a": 3, "b": 1}).describe(["c"]) == "2 processes for queues a:3, b"


def test_queues_come_first_in_proportion_to_their_weights():
    round_robin = WeightedRoundRobin({"a": 5, "b": 2, "c": 1})
    orders = [round_robin.next() for _ in range(80)]
    assert Counter(order[0] for order in orders) == {"a": 50, "b": 20, "c": 10}
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)


def test_first_places_of_a_queue_are_spread_evenly():
    round_robin = WeightedRoundRobin({"a": 5, "b": 1, "c": 1})
    assert "".join(round_robin.next()[0] for _ in range(7)) == "aabacaa"


def test_each_pool_has_its_own_rows_of_the_claim_table():
    shared = Shared.for_pools([JobPool("jobs", 2, {"a": 1}), JobPool("jobs of b", 1, {"b": 1})])
    for number, pool in enumerate(("jobs", "jobs of b")):
        shared.row(pool, 0).record_retry_due(100 + number)
    assert [row.retries_due_ms for row in shared.claim_table.rows()] == [100, 101]
    last = len(shared.row_numbers["jobs"]) - 1
    shared.row("jobs", last).record_retry_due(7)
    assert shared.row("jobs of b", 0).retries_due_ms == 101


def test_a_pool_cannot_grow_into_the_part_of_the_next():
    shared = Shared.for_pools([JobPool("jobs", 2), JobPool("jobs of b", 1, {"b": 1})])
    with pytest.raises(ConfigError, match="at most 72 processes of one pool"):
        shared.row("jobs", 72)

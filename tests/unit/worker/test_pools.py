"""Pools of job processes: what ``--queue`` says, whose turn it is, and where each has its part of the board."""

from collections import Counter

import pytest

from pinlater.errors import ConfigError
from pinlater.worker.pools import JobPool, parse_pools
from pinlater.worker.session.weighted_round_robin import Turns
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
        (["e-mail"], "--queue e-mail: a queue's name has letters, digits and underscore only"),
        ([""], "--queue : a queue's name"),
        (["a,,b"], "--queue a,,b: a queue's name"),
        (["a, b"], "--queue a, b: a queue's name"),
        (["a", "b,a"], "--queue b,a: the queue a is named twice"),
        (["a,a=2"], "--queue a,a=2: the queue a is named twice"),
        (["a:0"], "--queue a:0: the weight of a is a number from 1 to 100, not '0'"),
        (["a:101"], "the weight of a is a number from 1 to 100, not '101'"),
        (["a:"], "the weight of a is a number from 1 to 100, not ''"),
        (["a:1:2"], "not '1:2'"),
        (["a:٣"], "not '٣'"),
        (["a="], "--queue a=: what follows = is a number from 1 to 256, not ''"),
        (["a=0"], "not '0'"),
        (["a=257"], "not '257'"),
        (["a=1=2"], "not '1=2'"),
        (["a=" + "9" * 5000], "is a number from 1 to 256"),
    ],
)
def test_what_is_wrong_is_said(texts, message):
    with pytest.raises(ConfigError) as caught:
        parse_pools(texts, 5)
    assert message in str(caught.value)


def test_a_pool_in_words():
    assert JobPool("jobs", 1).in_words(["a", "b"]) == "1 process for queue a, b"
    assert JobPool("jobs", 2, {"a": 3, "b": 1}).in_words(["c"]) == "2 processes for queue a:3, b"


def test_turns_have_the_share_of_their_weight():
    turns = Turns({"a": 5, "b": 2, "c": 1})
    orders = [turns.next() for _ in range(80)]
    assert Counter(order[0] for order in orders) == {"a": 50, "b": 20, "c": 10}
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)


def test_turns_are_spread_evenly():
    turns = Turns({"a": 5, "b": 1, "c": 1})
    assert "".join(turns.next()[0] for _ in range(7)) == "aabacaa"


def test_each_pool_has_its_own_part_of_the_board():
    shared = Shared.for_pools([JobPool("jobs", 2, {"a": 1}), JobPool("jobs of b", 1, {"b": 1})])
    for number, pool in enumerate(("jobs", "jobs of b")):
        shared.slot(pool, 0).expect_retries(100 + number)
    assert [slot.retries_due_ms for slot in shared.board.slots()] == [100, 101]
    last = len(shared.places["jobs"]) - 1
    shared.slot("jobs", last).expect_retries(7)
    assert shared.slot("jobs of b", 0).retries_due_ms == 101


def test_a_pool_cannot_grow_into_the_part_of_the_next():
    shared = Shared.for_pools([JobPool("jobs", 2), JobPool("jobs of b", 1, {"b": 1})])
    with pytest.raises(ConfigError, match="at most 72 processes of one pool"):
        shared.slot("jobs", 72)

"""The arithmetic of tokens that are kept in a store."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinlater.server.backends.token_bucket import Tokens, spend
from tests.support.examples import examples

NOW_US = 1_700_000_000_000_000
RATES = st.floats(1e-9, 1e6)


class Bucket:
    """One bucket, and a clock that goes in milliseconds, as those of stores do."""

    def __init__(self):
        self.now_ms = NOW_US // 1000
        self.spent_until = 0

    def take(self, rate, wanted):
        tokens, self.spent_until = spend(self.spent_until, self.now_ms * 1000, rate, wanted)
        return tokens


@pytest.fixture
def bucket():
    return Bucket()


def test_a_new_bucket_has_what_a_second_brings(bucket):
    assert bucket.take(10, 4) == Tokens(4, 0)
    assert bucket.take(10, 100) == Tokens(6, 100)
    assert bucket.take(10, 1) == Tokens(0, 100)


def test_no_more_than_that_is_saved_up(bucket):
    bucket.take(10, 100)
    bucket.now_ms += 3_600_000
    assert bucket.take(10, 100).taken == 10


def test_a_slow_one_has_one_token(bucket):
    assert bucket.take(0.1, 5) == Tokens(1, 10_000)
    bucket.now_ms += 9_999
    assert bucket.take(0.1, 5) == Tokens(0, 1)
    bucket.now_ms += 1
    assert bucket.take(0.1, 5).taken == 1


def test_what_is_given_back_can_be_taken_again(bucket):
    bucket.take(10, 10)
    assert bucket.take(10, -7) == Tokens(-7, 0)
    assert bucket.take(10, 10).taken == 7
    bucket.take(10, -500)
    assert bucket.take(10, 500).taken == 10


def test_a_changed_rate_hands_out_nothing_extra(bucket):
    bucket.take(10, 10)
    assert bucket.take(1000, 1000).taken == 0
    bucket.now_ms += 10
    assert bucket.take(1000, 1000).taken == 10


def test_a_clock_that_was_put_back_stops_nothing(bucket):
    bucket.take(10, 10)
    bucket.now_ms -= 3_600_000
    assert bucket.take(10, 1).next_ms <= 100
    bucket.now_ms += 100
    assert bucket.take(10, 1).taken == 1


def test_a_clock_that_was_ahead_holds_nobody_for_long(bucket):
    was = bucket.spent_until = (bucket.now_ms + 3_600_000) * 1000
    assert bucket.take(10, 1) == Tokens(0, 100)
    assert bucket.spent_until < was, "a store has to keep it, though nothing was taken"
    bucket.now_ms += 100
    assert bucket.take(10, 1).taken == 1


def test_clocks_that_differ_a_little_bring_no_more_tokens(bucket):
    bucket.take(100, 100)
    taken = 0
    for _ in range(100):  # two servers in turn, one of them 8 ms ahead
        bucket.now_ms += 10
        bucket.now_ms += 8
        taken += bucket.take(100, 100).taken
        bucket.now_ms -= 8
        taken += bucket.take(100, 100).taken
    assert taken <= 101


@examples(100)
@given(RATES)
def test_whoever_waits_as_long_as_told_gets_a_token(rate):
    bucket = Bucket()
    bucket.take(rate, 10**9)
    for _ in range(20):
        bucket.now_ms += bucket.take(rate, 0).next_ms
        assert bucket.take(rate, 1).taken == 1


@examples(100)
@given(RATES, st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 100)), max_size=30))
def test_over_time_the_rate_is_kept(rate, steps):
    bucket = Bucket()
    taken = sum(_after(bucket, pause_ms, rate, wanted) for pause_ms, wanted in steps)
    seconds = sum(pause_ms for pause_ms, _ in steps) / 1000
    assert taken <= rate * seconds + max(rate, 1) + 1


def _after(bucket, pause_ms, rate, wanted):
    bucket.now_ms += pause_ms
    return bucket.take(rate, wanted).taken


@examples(100)
@given(RATES, st.integers(-(10**6), 10**6))
def test_moments_fit_into_what_stores_have_for_them(rate, wanted):
    _, moment = spend(0, NOW_US, rate, wanted)
    assert 0 <= NOW_US - moment <= 10**15

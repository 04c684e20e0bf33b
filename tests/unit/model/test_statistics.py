"""Spreads of durations, and sums of statistics."""

import pytest

from pinlater.model.statistics import BOUNDS_MS, Spread, Statistics, bucket_of, total


def spread_of(*milliseconds):
    return sum((Spread({bucket_of(each): 1}) for each in milliseconds), Spread())


def test_bounds_are_six_a_decade():
    assert BOUNDS_MS[:8] == (0.1, 0.15, 0.22, 0.33, 0.47, 0.68, 1.0, 1.5)
    assert len(BOUNDS_MS) == 55
    assert BOUNDS_MS[-1] == 1e8


def test_buckets_have_their_upper_bound():
    assert [bucket_of(each) for each in (0, 0.1, 0.11, 1.0, 1e8, 1e9)] == [0, 0, 1, 6, 54, 55]


@pytest.mark.parametrize("milliseconds", [0.3, 1, 7.77, 50, 1234, 86_400_000])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.95, 1.0])
def test_a_quantile_is_near_the_durations(milliseconds, share):
    assert spread_of(*[milliseconds] * 100).quantile(share) == pytest.approx(milliseconds, rel=0.5)


def test_quantiles_of_a_mixture():
    mixture = spread_of(*[2] * 90, *[900] * 9, 50_000)
    assert mixture.count == 100
    assert 1.5 <= mixture.quantile(0.5) <= 2.2
    assert 680 <= mixture.quantile(0.95) <= 1000
    assert 33_000 <= mixture.quantile(1.0) <= 68_000


def test_an_empty_spread_has_no_quantiles():
    assert Spread().quantile(0.5) is None
    assert Spread({3: 0}).quantile(0.5) is None


def test_what_is_above_all_bounds_counts_as_the_last():
    assert Spread({55: 2}).quantile(0.5) == 1e8


def test_a_total_adds_everything_up():
    one = Statistics("mail", "", 60_000, 1, 2, 3, 4, 5, Spread({1: 1}), Spread({2: 2}))
    assert total([one, one]) == Statistics("mail", "", 60_000, 2, 4, 6, 8, 10, Spread({1: 2}), Spread({2: 4}))
    assert total([]) == Statistics("", "", 0)

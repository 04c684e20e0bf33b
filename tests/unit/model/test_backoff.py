"""Backoff: arithmetic, with chance passed in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinlater.model.backoff import Constant, Exponential, Linear
from tests.support.examples import examples

NEVER, ALWAYS = (lambda: 0.0), (lambda: 1.0)


def delays(policy, count=6, chance=NEVER):
    return [policy.delay(spent, chance) for spent in range(1, count + 1)]


def test_constant():
    assert delays(Constant(7)) == [7] * 6


def test_linear_grows_by_steps_to_its_cap():
    assert delays(Linear(first=1, step=2, cap=8)) == [1, 3, 5, 7, 8, 8]


def test_exponential_doubles_to_its_cap():
    assert delays(Exponential(first=1, cap=20)) == [1, 2, 4, 8, 16, 20]
    assert delays(Exponential(first=3, cap=100, factor=3)) == [3, 9, 27, 81, 100, 100]


@pytest.mark.parametrize("policy", [Constant(10, jitter=0.5), Linear(10, 0, jitter=0.5), Exponential(10, jitter=0.5)])
def test_jitter_adds_at_most_its_share_and_never_shortens(policy):
    assert policy.delay(1, NEVER) == 10
    assert policy.delay(1, lambda: 0.5) == 12.5
    assert policy.delay(1, ALWAYS) == 15


def test_the_first_attempt_is_also_meant_by_zero_and_less():
    for policy in (Linear(5, 1), Exponential(5, jitter=0)):
        assert policy.delay(0, NEVER) == policy.delay(-3, NEVER) == policy.delay(1, NEVER) == 5


def test_thousands_of_attempts_do_not_overflow():
    assert Exponential(first=1, cap=3600, jitter=0).delay(10**6) == 3600


@examples(100)
@given(st.floats(0, 100), st.floats(0, 10_000), st.floats(0, 10), st.integers(1, 200))
def test_delays_stay_between_zero_and_the_cap(first, cap, factor, spent):
    assert 0 <= Exponential(first, cap, factor, jitter=0).delay(spent) <= cap
    assert 0 <= Linear(first, factor, cap).delay(spent) <= cap


@pytest.mark.parametrize("bad", [-1, float("nan"), -0.001, "2"])
def test_what_is_no_time_is_refused_by_name(bad):
    for make in (
        lambda: Constant(bad),
        lambda: Linear(1, bad),
        lambda: Exponential(cap=bad),
        lambda: Constant(1, jitter=bad),
    ):
        with pytest.raises(ValueError, match=r"backoff: \w+=.* must be a number, 0 or more"):
            make()


def test_policies_are_values():
    assert Exponential(2, 600) == Exponential(first=2, cap=600)
    assert len({Constant(1), Constant(1), Linear(1, 1)}) == 2

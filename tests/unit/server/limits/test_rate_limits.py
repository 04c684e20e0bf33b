"""Token buckets: when jobs may be handed out, and what a reload keeps."""

import asyncio

import pytest

from pinlater.server.limits.rate_limits import RateLimits


class Clock:
    """A clock that the test moves."""

    def __init__(self):
        self.now = 50.0

    def __call__(self):
        return self.now


def acquire(limits, queue, wanted):
    return asyncio.run(limits.acquire(queue, wanted))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def limits(clock):
    return RateLimits(clock)


def test_a_queue_without_limit_gets_all_it_wants(limits):
    assert acquire(limits, "free", 12345) == 12345
    assert limits.seconds_until_next("free") == 0
    assert not limits.is_paused("free")
    limits.give_back("free", 1)


def test_a_full_bucket_hands_out_one_seconds_worth(limits, clock):
    limits.update({"q": 10})
    assert acquire(limits, "q", 4) == 4
    assert acquire(limits, "q", 100) == 6
    assert acquire(limits, "q", 1) == 0
    assert limits.seconds_until_next("q") == pytest.approx(0.1)
    clock.now += 3600
    assert acquire(limits, "q", 100) == 10


def test_over_time_the_rate_is_kept(limits, clock):
    limits.update({"q": 7.3})
    handed_out = 0
    for _ in range(1000):
        clock.now += 0.037
        handed_out += acquire(limits, "q", 5)
    assert handed_out == pytest.approx(7.3 * 37 + 7.3, abs=2)


@pytest.mark.parametrize("rate", [0.1, 0.3, 1, 3, 7, 1e-4, 1e4])
def test_whoever_waits_as_long_as_told_gets_a_job(limits, clock, rate):
    limits.update({"q": rate})
    acquire(limits, "q", 1_000_000)
    for _ in range(50):
        clock.now += limits.seconds_until_next("q")
        assert limits.seconds_until_next("q") == 0.0
        assert acquire(limits, "q", 1) == 1


def test_a_slow_queue_lets_the_first_job_through_at_once(limits, clock):
    limits.update({"q": 0.1})
    assert acquire(limits, "q", 5) == 1
    clock.now += 9.9
    assert acquire(limits, "q", 5) == 0
    clock.now += 0.1
    assert acquire(limits, "q", 5) == 1


def test_what_is_given_back_can_be_taken_again(limits, clock):
    limits.update({"q": 10})
    acquire(limits, "q", 10)
    limits.give_back("q", 7)
    assert acquire(limits, "q", 10) == 7
    limits.give_back("q", 500)
    assert acquire(limits, "q", 500) == 10


def test_nothing_is_taken_for_a_wish_of_nothing(limits):
    limits.update({"q": 10})
    assert acquire(limits, "q", 0) == 0
    assert acquire(limits, "q", 10) == 10


@pytest.mark.parametrize("rate", [0, -1])
def test_a_rate_of_zero_or_less_pauses(limits, rate):
    limits.update({"q": rate})
    assert limits.is_paused("q")
    assert acquire(limits, "q", 1) == 0
    assert limits.seconds_until_next("q") is None
    limits.give_back("q", 1)
    assert acquire(limits, "q", 1) == 0


def test_servers_share_a_limit(limits):
    limits.update({"q": 10}, server_count=4)
    assert acquire(limits, "q", 100) == 2
    assert limits.seconds_until_next("q") == pytest.approx(0.5 / 2.5)


def test_a_reload_keeps_the_state_of_unchanged_limits(limits):
    limits.update({"q": 10, "other": 1})
    acquire(limits, "q", 10)
    limits.update({"q": 10})
    assert acquire(limits, "q", 1) == 0
    assert acquire(limits, "other", 50) == 50


def test_a_changed_limit_hands_out_nothing_extra(limits, clock):
    limits.update({"q": 10})
    acquire(limits, "q", 10)
    limits.update({"q": 1000})
    assert acquire(limits, "q", 1000) == 0
    clock.now += 0.5
    assert acquire(limits, "q", 1000) == 500
    clock.now += 1
    limits.update({"q": 2})
    assert acquire(limits, "q", 1000) == 2


def test_time_before_a_change_counts_at_the_old_rate(limits, clock):
    limits.update({"q": 10})
    acquire(limits, "q", 10)
    clock.now += 0.5
    limits.update({"q": 1000})
    assert acquire(limits, "q", 1000) == 5


def test_a_pause_hands_out_nothing_extra(limits, clock):
    limits.update({"q": 0.1})
    assert acquire(limits, "q", 5) == 1
    for _ in range(3):
        clock.now += 1
        limits.update({"q": 0})
        assert acquire(limits, "q", 5) == 0
        limits.update({"q": 0.1})
        assert acquire(limits, "q", 5) == 0
    assert limits.seconds_until_next("q") == pytest.approx(7)


def test_a_paused_queue_goes_on_after_the_pause(limits):
    limits.update({"q": 0})
    limits.update({"q": 5})
    assert not limits.is_paused("q")
    assert acquire(limits, "q", 9) == 5

"""When the event loop may commit: not after a disk that stalled, nor while the thread has more to do."""

import random

import pytest

from pinlater.server.backends.records import CommitStats
from pinlater.server.backends.sqlite.inline_commits import (
    FAILURE_PAUSE_SECONDS,
    MAX_RUN,
    PAUSE_FACTOR,
    SLOW_SECONDS,
    STALL_SECONDS,
    InlineCommits,
)

FAST = CommitStats(1, 0.0005)


class Rule:
    """The rule under a clock that passes when a test says so, after a first fast commit."""

    def __init__(self):
        self.now = 100.0
        self.rule = InlineCommits(lambda: self.now)
        self.in_thread()

    def in_thread(self, seconds=0.0005, requests=1, *, is_failed=False):
        self.rule.record(CommitStats(requests, seconds, is_failed), is_inline=False)

    def inline(self, seconds=0.0005, *, is_failed=False):
        assert self.rule.are_allowed()
        self.rule.record(CommitStats(1, seconds, is_failed), is_inline=True)

    @property
    def is_allowed(self):
        return self.rule.are_allowed()


@pytest.fixture
def rule():
    return Rule()


def test_the_first_commit_is_the_thread_s():
    commits = InlineCommits(lambda: 0.0)
    assert not commits.are_allowed()
    commits.record(FAST, is_inline=False)
    assert commits.are_allowed()


def test_the_thread_has_its_turn_after_many_commits(rule):
    for _ in range(MAX_RUN):
        rule.inline()
    assert not rule.is_allowed
    rule.in_thread()
    assert rule.is_allowed


@pytest.mark.parametrize("seconds", [SLOW_SECONDS * 1.1, 1.0, 30.0])
def test_after_a_slow_commit_the_thread_takes_over_for_long(rule, seconds):
    rule.inline(seconds)
    rule.now += PAUSE_FACTOR * seconds - 1
    rule.in_thread()
    assert not rule.is_allowed
    rule.now += 2
    assert rule.is_allowed


def test_a_stall_in_the_thread_counts_as_well(rule):
    rule.in_thread(STALL_SECONDS * 2)
    rule.in_thread()
    assert not rule.is_allowed
    rule.now += PAUSE_FACTOR * STALL_SECONDS * 2 + 1
    assert rule.is_allowed


def test_a_slow_commit_in_the_thread_has_to_be_followed_by_a_fast_one(rule):
    rule.in_thread(SLOW_SECONDS * 2)
    assert not rule.is_allowed
    rule.in_thread()
    assert rule.is_allowed


def test_after_a_group_commit_the_thread_goes_on(rule):
    rule.in_thread(requests=2)
    assert rule.is_allowed
    rule.in_thread(requests=3)
    assert not rule.is_allowed
    rule.in_thread()
    assert rule.is_allowed


def test_after_a_failure_the_thread_takes_over(rule):
    rule.inline(is_failed=True)
    rule.in_thread()
    assert not rule.is_allowed
    rule.now += FAILURE_PAUSE_SECONDS + 1
    assert rule.is_allowed


@pytest.mark.parametrize("seed", range(5))
def test_a_disk_that_stalls_now_and_then_takes_a_thousandth_of_the_loop(rule, seed):
    """Apart from the first stall, which nobody can foresee."""
    chance = random.Random(seed)
    began, lost, longest = rule.now, 0.0, 0.0
    for _ in range(5_000):
        seconds = chance.uniform(1, 30) if chance.random() < 0.01 else 0.0005
        if rule.is_allowed:
            rule.inline(seconds)
            if seconds > SLOW_SECONDS:
                lost, longest = lost + seconds, max(longest, seconds)
        else:
            rule.in_thread(seconds)
        rule.now += seconds + 1
    assert lost <= longest + (rule.now - began) / PAUSE_FACTOR

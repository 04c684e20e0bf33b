"""When the next job of a key with a rate may be started."""

import random

import pytest

from pinlater.model.rates import parse_rate
from pinlater.server.backends.key_rates import KeyRate, PacedKey, paced_turns
from pinlater.server.backends.key_turns import KeyedJob

NOW = 1_800_000_000_000


@pytest.mark.parametrize("text", ["1/s", "3/s", "10/s", "50/s", "333/s", "5000/s", "999999/s", "7/m", "5000/m", "1/d"])
def test_no_period_has_more_starts_than_the_rate_and_a_busy_one_hardly_fewer(text):
    jobs, seconds = parse_rate(text)
    rate, now, starts = KeyRate(text), NOW, []
    while len(starts) < min(3 * jobs, 10_000):
        now = max(now, rate.starts_at(now))
        starts.append(now)
        rate = rate.after(1, now)
    for first, last in zip(starts, starts[jobs:], strict=False):
        assert last >= first + 1000 * seconds
    busy = sum(at < starts[0] + 1000 * seconds for at in starts)
    assert busy >= min(0.9 * jobs, len(starts))


def test_late_starts_are_not_made_good():
    chance, rate, now, starts = random.Random(1), KeyRate("100/s"), NOW, []
    for _ in range(2000):
        now = max(now, rate.starts_at(now)) + chance.choice([0, 0, 1, 30, 500])
        starts.append(now)
        rate = rate.after(1, now)
    for first, last in zip(starts, starts[100:], strict=False):
        assert last >= first + 1000


def test_a_clock_that_goes_back_holds_a_key_for_a_period_at_most():
    rate = KeyRate("1/m").after(1, NOW)
    assert rate.starts_at(NOW - 3_600_000) == NOW - 3_600_000 + 60_000


def test_another_rate_counts_from_the_last_start():
    rate = KeyRate("1/h").after(1, NOW)
    assert rate.changed_to("1/m").starts_at(NOW) == NOW + 60_000
    assert KeyRate("1/h").changed_to("1/m").starts_at(NOW) <= NOW


def due(local_id, run_after=NOW, limit=None):
    return KeyedJob(local_id, run_after, limit)


def test_jobs_that_are_due_and_of_others_count_but_stay():
    key = PacedKey([due(1), due(2, NOW - 5)], due(3, NOW - 9), 0, NOW + 100)
    assert paced_turns(key, NOW, ours=()) == {}
    [(moved, run_after)] = paced_turns(key, NOW, ours={2}).items()
    assert (moved, run_after > NOW + 10**9) == (2, True)


def test_a_job_that_is_due_within_a_second_stays_with_its_owner():
    key = PacedKey([due(1, NOW + 900)], due(2, NOW - 9), 0, NOW)
    assert paced_turns(key, NOW, ours=()) == {}
    later = key._replace(through=[due(1, NOW + 9000)])
    assert paced_turns(later, NOW, ours=())[2] == NOW

"""How many jobs are fetched at once."""

import pytest

from pinlater.worker.claim_table.snapshot import MAX_JOBS
from pinlater.worker.session.pace import SHORT_SECONDS, Pace


def test_it_begins_with_one_job_and_fetches_nothing_ahead():
    pace = Pace()
    assert pace.limit == 1
    assert not pace.is_below(SHORT_SECONDS)


def test_it_grows_at_most_twofold_up_to_the_most():
    pace = Pace()
    limits = []
    for _ in range(10):
        pace.record(pace.limit, pace.limit * 1e-6)
        limits.append(pace.limit)
    assert limits == [2, 4, 8, 16, 32, 64, 128, 250, MAX_JOBS, MAX_JOBS]
    assert pace.is_below(SHORT_SECONDS)


def test_one_long_job_shrinks_it_at_once():
    pace = Pace()
    for _ in range(10):
        pace.record(100, 100e-6)
    pace.record(1, 2.0)
    assert pace.limit == 1
    assert not pace.is_below(SHORT_SECONDS)


def test_it_comes_back_by_and_by():
    pace = Pace()
    pace.record(1, 0.1)
    limits = []
    for _ in range(30):
        pace.record(1, 0.001)
        limits.append(pace.limit)
    assert limits[0] == 1
    assert limits == sorted(limits)
    assert limits[-1] > 40


@pytest.mark.parametrize(("seconds", "limit"), [(0.06, 1), (0.03, 1), (0.012, 4), (0.001, 50)])
def test_it_settles_where_a_batch_takes_the_target(seconds, limit):
    pace = Pace()
    for _ in range(12):
        pace.record(1, seconds)
    assert pace.limit == limit


def test_an_empty_batch_does_not_count_for_the_average():
    pace = Pace()
    pace.record(0, 5.0)
    assert pace.average_seconds is None


def test_a_clock_that_stands_still_is_survived():
    pace = Pace()
    pace.record(1, 0.0)
    assert pace.limit == 2


def test_several_places_take_as_many_times_more():
    pace = Pace(capacity=8)
    for _ in range(10):
        pace.record(1, 0.01)
    assert pace.limit == 40

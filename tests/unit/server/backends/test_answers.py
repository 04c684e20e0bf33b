"""What goes into the answer of a dequeue: jobs in their order, up to its limit and its size."""

import pytest

from pinlater.server.backends.answers import end_of_answer
from pinlater.server.backends.records import JOB_OVERHEAD_BYTES

SIZES = [10, 20, 30]
TWO_FIT = 30 + 2 * JOB_OVERHEAD_BYTES


@pytest.mark.parametrize(
    ("start", "limit", "max_bytes", "expected"),
    [
        (0, 9, 10_000, (3, False)),
        (0, 3, 10_000, (3, True)),
        (0, 2, 10_000, (2, True)),
        (0, 0, 10_000, (0, True)),
        (0, 9, TWO_FIT, (2, True)),
        (0, 9, TWO_FIT - 1, (1, True)),
        (0, 9, 0, (1, True)),
        (2, 9, 0, (3, False)),
        (3, 9, 10_000, (3, False)),
    ],
)
def test_an_answer_takes_what_fits_and_at_least_one_job(start, limit, max_bytes, expected):
    assert end_of_answer(SIZES, start, limit, max_bytes) == expected

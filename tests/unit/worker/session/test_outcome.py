"""How attempts end, and what of it fits where it is kept."""

import pytest

from pinlater.worker.session.outcome import Failure

FAILURE = Failure(
    "[attempt 1/4 2026-11-21T12:30:05Z web1 4242 0.52 s] OSError: " + "ä" * 400 + "\n", 1500, job="SendMail"
)


def test_a_failure_is_read_as_it_was_written():
    for failure in (FAILURE, Failure("", None, "cancelled")):
        assert Failure.decode(failure.encoded(2000)) == failure


@pytest.mark.parametrize("most_bytes", [300, 301, 302, 500])
def test_the_status_of_a_failure_is_cut_to_fit(most_bytes):
    text = FAILURE.encoded(most_bytes)
    assert most_bytes - 3 < len(text) <= most_bytes
    failure = Failure.decode(text)
    assert (failure.delay_ms, failure.job) == (1500, "SendMail")
    assert failure.status.endswith("ää…\n")
    assert FAILURE.status.startswith(failure.status.removesuffix("…\n"))


def test_where_no_part_of_a_status_fits_there_is_none():
    assert FAILURE.encoded(150) == b""
    assert FAILURE.encoded(-9) == b""

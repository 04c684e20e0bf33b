"""Rates, as texts."""

import pytest

from pinlater.model.rates import LONGEST_RATE, Rate, parse_rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [("10/s", (10, 1)), ("100/m", (100, 60)), ("1000/h", (1000, 3600)), ("5/d", (5, 86400)), ("999999/s", (999999, 1))],
)
def test_a_rate_is_a_number_and_a_time(text, rate):
    assert parse_rate(text) == Rate(*rate)
    assert len(text) <= LONGEST_RATE


@pytest.mark.parametrize(
    "text", ["", "10", "/s", "0/s", "-1/s", "1.5/s", "01/s", "10/w", "10/S", "1000000/s", " 1/s", "1/s\n", "\u0661/s"]
)
def test_other_texts_are_no_rates(text):
    with pytest.raises(ValueError, match="is no rate; write 10/s"):
        parse_rate(text)

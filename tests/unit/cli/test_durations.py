"""Lengths of time on the command line."""

import click
import pytest

from pinlater.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("1d12h", 129_600), ("1w", 604_800)]
)
def test_lengths_of_time(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "2x", "-2h", "2 h", "12h30", "1e3", "2H"])
def test_what_is_no_length_of_time(text):
    with pytest.raises(click.BadParameter, match="write 90s"):
        parse_duration(text)

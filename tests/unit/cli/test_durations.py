"""Lengths of time on the command line."""

import click
import pytest

from pinlater.cli.program import tool
from pinlater.durations import DURATION, parse_duration
from pinlater.worker.program import worker


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("1d12h", 129_600), ("1w", 604_800)]
)
def test_lengths_of_time(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "2x", "-2h", "2 h", "12h30", "1e3", "2H"])
def test_what_is_no_length_of_time(text):
    with pytest.raises(click.BadParameter, match="write 90s"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["9" * 400, "9999999999999999999d"])
def test_a_length_of_time_that_no_clock_can_count(text):
    with pytest.raises(click.BadParameter, match="longer than 3,000 years"):
        parse_duration(text)


@pytest.mark.parametrize(
    "option",
    [
        pytest.param(option, id=f"{program.name} {option.name}")
        for program in (*tool.commands.values(), worker)
        for option in program.params
        if isinstance(option.type, click.FloatRange)
    ],
)
@pytest.mark.parametrize("text", ["nan", "inf", "-1", "1e300"])
def test_no_option_takes_a_number_that_cannot_be_counted(option, text):
    with pytest.raises(click.BadParameter, match=r"is not (a number of at most|in the range)"):
        option.type.convert(text, option, None)


@pytest.mark.parametrize(
    "option",
    [
        pytest.param(option, id=f"{program.name} {option.name}")
        for program in (*tool.commands.values(), worker)
        for option in program.params
        if option.metavar in {DURATION, "SECONDS"}
    ],
)
@pytest.mark.parametrize("text", ["90", "90s", "1.5m"])
def test_every_time_may_have_a_unit(option, text):
    assert option.type.convert(text, option, None) == 90


def test_what_is_no_time_is_told_how_to_write_one(tool_run):
    status, _, err = tool_run("enqueue", "email", "x", "--give-up-after", "5 min")
    assert (status, "'5 min' is not a duration; write 90s, 15m" in err) == (2, True)

"""JSON lines of all programs: valid and bounded, whatever is in them."""

import json
import logging
import sys

import pytest

from pinlater.logs import MOST_MESSAGE_CHARACTERS, JsonFormatter
from pinlater.testing import run_inline
from pinlater.worker import logs
from tests.unit.testing.jobs import Polite

LONGEST_LINE = 250_000


class Unprintable(Exception):
    def __str__(self):
        raise ZeroDivisionError


def record(message, *arguments, exc_info=None):
    return logging.LogRecord("a.library", logging.INFO, "x.py", 1, message, arguments, exc_info)


def caught(error):
    try:
        raise error
    except type(error):
        return sys.exc_info()


def deep():
    def fall(depth):
        if depth == 0:
            raise ValueError("at the bottom " + "y" * 100_000)
        fall(depth - 1)

    try:
        fall(500)
    except ValueError:
        return sys.exc_info()


@pytest.mark.parametrize(
    "text",
    ["a\0b", "two\nlines\r\n", "\x1b[2J\x7f\x9b", "\udcff\ud800", "é 漢 \U0001f600", "\u2028", '"\\', "x" * 5_000_000,
     "\0" * 5_000_000, "\udcff" * 5_000_000],
    ids=range(10),
)  # fmt: skip
def test_any_message_is_one_bounded_valid_line(text):
    line = JsonFormatter().format(record("%s", text, exc_info=caught(ValueError(text))))
    assert len(line) < LONGEST_LINE
    assert line.isascii()
    assert "\n" not in line
    fields = json.loads(line)
    expected = text.encode("utf-8", "backslashreplace").decode()
    assert fields["message"].startswith(expected[:MOST_MESSAGE_CHARACTERS])
    fields["message"].encode()  # every reader can
    fields["traceback"].encode()


def test_what_was_cut_says_so():
    message = json.loads(JsonFormatter().format(record("x" * 5_000_000)))["message"]
    assert message.endswith("x… (5000000 characters)")


def test_a_long_traceback_keeps_both_ends():
    told = json.loads(JsonFormatter().format(record("failed", exc_info=deep())))["traceback"]
    assert told.startswith("Traceback (most recent call last)")
    assert "characters)" in told
    assert told.endswith("yyy")


@pytest.mark.parametrize("arguments", [("x",), (1, 2), (Unprintable(),)])
def test_arguments_that_do_not_fit_lose_no_line(arguments):
    message = json.loads(JsonFormatter().format(record("%d and", *arguments)))["message"]
    assert message.startswith("%d and (its arguments do not fit: ")


def test_an_exception_that_cannot_be_shown_loses_no_line():
    fields = json.loads(JsonFormatter().format(record("failed", exc_info=caught(Unprintable()))))
    assert fields["message"] == "failed"
    assert "Unprintable" in fields["traceback"] or "cannot be shown" in fields["traceback"]


def test_every_line_of_a_running_job_names_it(caplog):
    lines = []

    class Keeping(logging.Handler):
        def emit(self, record):
            lines.append(json.loads(self.format(record)))

    handler = Keeping()
    handler.setFormatter(JsonFormatter(logs.job_fields))
    logging.getLogger().addHandler(handler)
    try:
        with run_inline(Polite) as client:
            handle = client.enqueue(Polite(word="fail"), attempts=2)
    finally:
        logging.getLogger().removeHandler(handler)
    failures = [line for line in lines if "failed" in line["message"]]
    assert [line["attempt"] for line in failures] == [1, 2]
    about = {"descriptor": handle.descriptor, "attempts_allowed": 2, "class": "Polite"}
    assert all(about.items() <= line.items() for line in failures)
    assert logs.job_fields() == {}

"""Which jobs a filter means."""

import re

import click
import pytest

from pinlater import JobState
from pinlater.cli.filters import Filter, parse_pattern
from pinlater.client import JobInfo

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
STATUS = (
    "from the import\n"
    "[attempt 1/2 2023-11-14T21:13:20Z web1 77 0.52 s] KeyError: 'a'\n"
    "[attempt 2/2 2023-11-14T21:13:25Z web1 77 0.52 s] OSError: refused\n"
    '  File "/srv/jobs.py", line 12, in KeyError\n'
)
BODY = b'{"job": "SendMail", "user": 42}'


def job(state=JobState.FAILED, status=STATUS, body=None):
    return JobInfo("q:s1:p1:1", state, 2, 0, status, NOW_MS - 5 * HOUR_MS, NOW_MS, NOW_MS - HOUR_MS, None, body)


def passes(which, one, body=BODY):
    verdict = which.matches(one, NOW_MS)
    return which.matches_body(one._replace(body=body)) if verdict is None else verdict


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({}, True),
        ({"error": "OSError"}, True),
        ({"error": "KeyError"}, False),  # of an earlier attempt, and in the traceback
        ({"where": "KeyError"}, True),
        ({"where": '"user": 42'}, True),
        ({"where": "from the .*"}, True),
        ({"where": "nowhere"}, False),
        ({"job": "SendMail"}, True),
        ({"job": "Send"}, False),
        ({"job": "SendMail", "where": "nowhere"}, False),
        ({"job": "SendMail", "where": "import", "error": "refused", "older_than": 60.0, "newer_than": 7200.0}, True),
        ({"older_than": 3600.0}, True),
        ({"older_than": 3601.0}, False),
        ({"newer_than": 3600.0}, True),
        ({"newer_than": 3599.0, "job": "SendMail"}, False),
    ],
)
def test_a_failed_job(options, verdict):
    texts = {name: re.compile(text) for name, text in options.items() if name in {"where", "error"}}
    which = Filter(**options | texts)
    assert passes(which, job()) is verdict
    assert which.is_for_server is (not options)


def test_the_age_of_a_job_that_has_not_ended_is_that_of_its_enqueue():
    which = Filter(older_than=4 * 3600.0)
    assert [passes(which, job(state)) for state in JobState] == [True, True, False, False]


def test_what_others_write_is_an_error_as_it_is():
    assert passes(Filter(error=re.compile("refused$")), job(status="SMTP refused"))


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'{"job": 7}', b"SendMail"])
def test_a_body_that_is_none_of_ours_is_of_no_class(body):
    assert passes(Filter(job="SendMail"), job(), body) is False


def test_bytes_are_found_by_their_escapes():
    assert passes(Filter(where=re.compile(re.escape(r"\xff"))), job(), b"a\xff") is True


def test_what_is_no_pattern():
    with pytest.raises(click.BadParameter, match="backslash"):
        parse_pattern("(")

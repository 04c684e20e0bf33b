"""Attempts that are left, as people count them."""

import pytest

from pinlater.client import JobInfo
from pinlater.model.state import JobState

SAGA = b'{"job":"Trip","$saga":{"steps":["book"],"allowed":3,"attempt":2,"given":5}}'
UNDOES = b'{"job":"Trip","$saga":{"steps":["book"],"why":"no money","allowed":3,"attempt":2}}'


@pytest.mark.parametrize(
    ("body", "allowed", "left", "text"),
    [
        (b'{"job":"Trip"}', 3, 2, "2 of 3"),
        (None, 5, 5, "5 of 5"),
        (b'{"job":"Trip"}', 1, 3, "3"),
        (SAGA, 5, 5, "2 of 3"),
        (SAGA, 5, 4, "1 of 3"),
        (SAGA, 5, 1, "0 of 3"),
        (SAGA, 4, 4, "4 of 4"),
        (UNDOES, 5, 4, "4 of 5 to undo what it did"),
    ],
)
def test_spare_attempts_are_not_counted(body, allowed, left, text):
    assert JobInfo("q:s1:p1:1", JobState.PENDING, allowed, left, body=body).attempts_text == text


RETRYING = b'{"job":"Bill","$again":{"due_ms":1,"schedule":"every 60.0"}}'


@pytest.mark.parametrize(
    ("unique", "body", "allowed", "left", "text"),
    [
        ("Bill every 60.0", None, 36, 36, "20 of 20"),
        ("Bill every 60.0", None, 36, 35, "19 of 20"),
        ("Bill every 60.0", None, 36, 3, "0 of 20"),
        ("Bill cron 0 3 * * * Europe/Berlin", None, 17, 17, "1 of 1"),
        ("sync every customer", None, 20, 20, "20 of 20"),
        (None, RETRYING, 36, 36, "20 of 20"),
    ],
)
def test_spare_attempts_of_a_periodic_job_are_not_counted(unique, body, allowed, left, text):
    info = JobInfo("q:s1:p1:1", JobState.PENDING, allowed, left, body=body, unique=unique)
    assert info.attempts_text == text

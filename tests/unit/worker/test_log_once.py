"""A trouble that lasts is said once."""

import logging

import pytest

from pinlater.worker.log_once import LogOnce


@pytest.fixture
def said(caplog):
    return lambda: [record.getMessage() for record in caplog.records]


def test_each_problem_is_logged_once(said):
    log_once = LogOnce(logging.getLogger("test"), "no jobs: %s")
    for text in ("away", "away", "refused", "refused", "away"):
        log_once.report(ValueError(text))
    assert said() == ["no jobs: away", "no jobs: refused", "no jobs: away"]


def test_the_same_trouble_is_said_again_after_an_end(said):
    log_once = LogOnce(logging.getLogger("test"), "no jobs: %s")
    log_once.report(ValueError("away"))
    log_once.reset()
    log_once.report(ValueError("away"))
    assert said() == ["no jobs: away"] * 2

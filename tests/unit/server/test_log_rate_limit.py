"""Log records that strangers can cause."""

import logging

import pytest

from pinlater.server.log_rate_limit import MOST_A_SECOND, LogRateLimit


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def log(clock):
    log = logging.getLogger("tests.rate_limit")
    limit = LogRateLimit(clock)
    log.addFilter(limit)
    yield log
    log.removeFilter(limit)


def test_so_many_a_second_and_a_count_of_the_others(log, clock, caplog):
    with caplog.at_level(logging.INFO, log.name):
        for number in range(1000):
            log.info("from %d: 100 %%", number)
        clock.now = 1.0
        log.warning("from %s", "%s")
        log.info("the next")
    texts = [record.getMessage() for record in caplog.records]
    assert texts[:MOST_A_SECOND] == [f"from {number}: 100 %" for number in range(MOST_A_SECOND)]
    assert texts[MOST_A_SECOND:] == [f"from %s ({1000 - MOST_A_SECOND} records before this were left out)", "the next"]


def test_errors_of_our_own_are_always_written(log, caplog):
    with caplog.at_level(logging.INFO, log.name):
        for _ in range(100):
            log.info("x")
            log.error("y")
    assert sum(record.levelno == logging.ERROR for record in caplog.records) == 100

"""The tree of errors, and its likeness to the wire contract's codes."""

from datetime import timedelta

import pytest

from pinlater import errors
from pinlater.errors import (
    SERVICE_ERRORS,
    CallError,
    ClaimLost,
    ClientError,
    ConfigError,
    Discard,
    JobCancelled,
    JobError,
    JobInterrupted,
    JobSleeps,
    PinLaterError,
    Retry,
    ServerError,
    ServiceError,
    UnknownError,
    service_error,
)

CONTRACT = {
    "CONTINUATION_INVALID": 400,
    "PASSWORD_INVALID": 403,
    "QUEUE_NAME_INVALID": 410,
    "QUEUE_NAME_TOO_LONG": 411,
    "QUEUE_NOT_FOUND": 413,
    "PRIORITY_NOT_SUPPORTED": 416,
    "DEQUEUE_RATE_LIMITED": 429,
    "ENQUEUE_REJECTED": 430,
    "STALE_CLAIMS": 440,
    "UNKNOWN": 500,
    "NO_HEALTHY_SHARDS": 501,
    "SHARD_CONNECTION_FAILED": 502,
}


def test_every_code_has_its_class():
    assert {kind.code_name: code for code, kind in SERVICE_ERRORS.items()} == CONTRACT
    for code, kind in SERVICE_ERRORS.items():
        assert kind.code == code
        assert issubclass(kind, ClientError if code < 500 else ServerError)
        assert kind.__name__.upper() in kind.code_name.replace("_", "") + "ERROR"


@pytest.mark.parametrize("code", SERVICE_ERRORS)
def test_a_code_becomes_its_class_with_the_message(code):
    error = service_error(code, "why")
    assert (type(error), str(error), error.code) == (SERVICE_ERRORS[code], "why", code)


@pytest.mark.parametrize("code", [0, -1, 499, 2**31 - 1])
def test_a_code_of_the_future_is_unknown(code):
    assert type(service_error(code, "why")) is UnknownError


def test_all_errors_have_one_root_and_an_interrupt_none():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BaseException)]
    assert [kind for kind in kinds if not issubclass(kind, PinLaterError)] == [
        JobInterrupted,
        JobSleeps,
        JobCancelled,
        ClaimLost,
    ]
    assert not issubclass(JobInterrupted, Exception)
    assert issubclass(JobSleeps, JobInterrupted)
    assert issubclass(ClaimLost, JobInterrupted)
    families = (ServiceError, CallError, JobError, ConfigError)
    for kind in set(kinds) - {PinLaterError, JobInterrupted, JobSleeps, JobCancelled, ClaimLost}:
        assert sum(issubclass(kind, family) for family in families) == 1


@pytest.mark.parametrize(
    ("after", "reason", "text"), [(None, "", "retry"), (1.5, "", "retry after 1.5 s"), (0, "busy", "busy")]
)
def test_retry_says_when_and_why(after, reason, text):
    error = Retry(after=after, reason=reason)
    assert (error.after, str(error)) == (after, text)


def test_a_timedelta_is_no_delay():
    with pytest.raises(TypeError, match=r"Retry\(datetime.timedelta\(days=5\)\): after is a number of seconds$"):
        Retry(timedelta(5))


def test_a_negative_delay_is_refused():
    with pytest.raises(ValueError, match="in seconds cannot be negative"):
        Retry(after=-0.1)


def test_discard_keeps_its_reason():
    assert str(Discard("the user is gone")) == "the user is gone"


def test_a_reason_in_the_place_of_a_delay_is_told_its_own():
    with pytest.raises(
        TypeError, match=r"after is a number of seconds; to give a reason, write Retry\(reason='busy'\)"
    ):
        Retry("busy")


def test_a_sleep_says_its_end_as_a_time_that_people_read():
    assert str(JobSleeps(1_795_767_151_600)) == "sleeps until 2026-11-27T08:12:31Z"

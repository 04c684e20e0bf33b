"""The error that stands for the result of a job that has failed for good."""

import pytest

from pinlater.errors import JobFailed, JobGone, JobWasCancelled
from pinlater.jobs.failed_jobs import job_failed
from pinlater.model.status import cancelled_status


def test_the_error_of_a_failed_job_says_which_and_why():
    status = "[attempt 1/1 2026-11-23T01:02:03Z web1 42 0.10 s] ValueError: no photo\n"
    error = job_failed("resize:s1:p1:7", status, name="Resize")
    assert type(error) is JobFailed
    assert str(error) == "Resize resize:s1:p1:7 failed: ValueError: no photo"
    assert (error.descriptor, error.status, error.failed_attempts[0].attempt) == ("resize:s1:p1:7", status, 1)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("not needed\n", "was cancelled: not needed"),
        (cancelled_status("not needed"), "was cancelled: not needed"),
        (cancelled_status(), "was cancelled"),
        ("", "was cancelled"),
    ],
)
def test_a_job_that_was_cancelled_has_an_error_of_its_own(status, said):
    cancelled = job_failed("q:s1:p1:7", status, is_cancelled=True)
    assert type(cancelled) is JobWasCancelled
    assert str(cancelled) == f"q:s1:p1:7 {said}"


def test_a_job_that_was_deleted_has_an_error_of_its_own():
    assert type(job_failed("q:s1:p1:7", "", is_gone=True)) is JobGone

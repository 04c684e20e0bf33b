"""What a failure says of the exception that a job has raised."""

import pytest

from pinlater.jobs.job import Job
from pinlater.testing import FakeContext
from pinlater.worker.session.failure_text import describe_error


class Send(Job):
    user: int = 7

    def run(self, context):
        pass


class Mail:
    pass


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [
        (Send(), "retry", "AttributeError: 'Send' object has no attribute 'retry'; write raise Retry(after=30)"),
        (Send(), "request", "; write the argument context: context.descriptor, context.attempt"),
        (Send(), "apply_async", "; write context.enqueue(job, name='mail')"),
        (FakeContext(), "update_state", "; write context.progress(done, total), or context.publish(stage='packing')"),
        (FakeContext(), "wait", "; write context.call(job), or context.wait_for('event')"),
        (FakeContext(), "colour", "object has no attribute 'colour'"),
        (Mail(), "retry", "AttributeError: 'Mail' object has no attribute 'retry'"),
    ],
)
def test_an_attribute_that_jobs_have_elsewhere_fails_with_what_to_write(owner, name, said):
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    assert describe_error(caught.value).endswith(said)

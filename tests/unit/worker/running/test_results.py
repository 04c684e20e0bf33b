"""What jobs return, on its way to the ack."""

import asyncio
from contextlib import closing, contextmanager
from time import monotonic_ns

import pytest

from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.jobs.job import Job, RawJob
from pinlater.worker.running.deadlines import Deadlines
from pinlater.worker.running.limits import never_kill
from pinlater.worker.running.runner import Runner
from pinlater.worker.running.task_runner import TaskRunner
from pinlater.worker.session.outcome import Failure, Interruption, Result
from tests.unit.worker.fakes import batch_of


class Add(Job[int], queue="sums"):
    numbers: list[int]

    def run(self, context):
        return sum(self.numbers)


class AddLater(Add):
    async def run(self, context):
        await asyncio.sleep(0)
        return super().run(context)


class AddInTime(AddLater, timeout=60):
    pass


class AddAgain(Add):
    def run(self, context):
        context.reschedule(after=60)
        return super().run(context)


class Name(Job[str], queue="sums", max_result=20):
    name: object

    def run(self, context):
        return self.name


class Copy(RawJob, queue="copies"):
    def run(self, context):
        return self.body


class Nothing(Job, queue="sums"):
    async def run(self, context):
        pass


KINDS = [Add, AddLater, AddInTime, AddAgain, Name, Copy, Nothing]


class FakeSaver:
    is_draining = False


def run_as_task(job, middleware=()):
    codec = JobCodec(KINDS)
    tasks = TaskRunner(codec, FakeSaver(), Deadlines(never_kill), middleware=middleware)
    return asyncio.run(tasks.run_awaited(batch_for(job), 0, monotonic_ns()))


def batch_for(job):
    return batch_of(f"{job.job_options.queue}:s1:p1:1", bodies=[encode_body(job)])


def run(job, **options):
    codec = JobCodec(KINDS)
    with closing(Runner(codec, FakeSaver(), **options)) as runner:
        return runner.run(batch_for(job), 0, monotonic_ns())


@contextmanager
def around(job, context):
    yield


@pytest.mark.parametrize("middleware", [[], [around]])
@pytest.mark.parametrize("kind", [Add, AddLater, AddInTime])
def test_a_result_goes_with_the_success(kind, middleware):
    assert run(kind(numbers=[1, 2]), middleware=middleware) == Result(b"3")


@pytest.mark.parametrize("middleware", [[], [around]])
@pytest.mark.parametrize("kind", [AddLater, AddInTime])
def test_so_it_does_of_a_job_among_others_on_a_loop(kind, middleware):
    assert run_as_task(kind(numbers=[1, 2]), middleware) == Result(b"3")


def test_a_raw_job_returns_its_bytes():
    assert run(Copy(body=b"\xff")) == Result(b"\xff")


def test_a_job_without_a_result_has_none():
    assert run(Nothing()) is None
    assert run_as_task(Nothing()) is None


def test_a_job_that_runs_again_has_no_result():
    assert isinstance(run(AddAgain(numbers=[1])), Interruption)


def test_a_result_that_does_not_fit_fails_the_attempt_before_middleware_takes_it_for_a_success():
    seen = []

    @contextmanager
    def watched(job, context):
        try:
            yield
        except Exception as error:
            seen.append(type(error).__name__)
            raise

    outcome = run(Name(name=7), middleware=[watched])
    assert isinstance(outcome, Failure)
    assert "Name returned a value of type int that does not fit Job[str]" in outcome.status
    assert outcome.delay_ms is not None
    assert seen == ["ResultInvalid"]


def test_too_large_a_result_gives_the_job_up():
    outcome = run(Name(name="x" * 19))
    assert (outcome.ending, outcome.delay_ms) == ("given_up", None)
    assert "ResultTooLarge" in outcome.status
    assert "max_result" in outcome.status

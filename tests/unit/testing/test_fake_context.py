"""FakeContext: what a job saves, which steps it runs, where it is interrupted."""

import asyncio
from threading import Thread

import pytest

from pinlater import Job, JobInterrupted
from pinlater.errors import BodyInvalid, JobSleeps
from pinlater.model.progress import Progress
from pinlater.testing import FakeContext
from tests.unit.testing.jobs import Count, Lines, Polite, Report


def test_each_checkpoint_keeps_the_job_as_it_was_then():
    context, job = FakeContext(), Count(end=3)
    job.run(context)
    assert context.checkpoints == [Count(end=3, cursor=1), Count(end=3, cursor=2), Count(end=3, cursor=3)]


def test_it_can_be_told_what_it_is():
    context = FakeContext(attempt=3, attempts_allowed=3, queue="q")
    assert (context.attempt, context.is_last_attempt, context.queue, context.descriptor) == (3, True, "q", "q:s1:p1:1")
    assert FakeContext(descriptor="other:s1:p2:7").descriptor == "other:s1:p2:7"
    assert not FakeContext().is_last_attempt


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_nth_checkpoint_interrupts(n):
    context, job = FakeContext(draining_after=n), Count(end=5)
    with pytest.raises(JobInterrupted):
        job.run(context)
    assert [saved.cursor for saved in context.checkpoints] == list(range(1, n + 1))


def test_draining_shows_before_the_checkpoint_that_interrupts():
    seen = []

    class Looks(Job):
        def run(self, context):
            for _ in range(3):
                seen.append(context.is_draining)
                context.checkpoint()

    with pytest.raises(JobInterrupted):
        Looks().run(FakeContext(draining_after=2))
    assert seen == [False, True]
    assert not FakeContext().is_draining


def test_an_interrupted_job_goes_on_where_it_was():
    first, job = FakeContext(draining_after=2), Count(end=4)
    with pytest.raises(JobInterrupted):
        job.run(first)
    job.cursor = 99  # the next attempt knows only what was saved
    resumed, second = first.resume(job), FakeContext()
    assert resumed == Count(end=4, cursor=2)
    resumed.run(second)
    assert [saved.cursor for saved in second.checkpoints] == [3, 4]


def test_without_a_checkpoint_there_is_nothing_to_resume_from():
    with pytest.raises(LookupError, match="as it was enqueued"):
        FakeContext().resume(Count(end=1))


def test_steps_run_once_over_all_attempts():
    first, job = FakeContext(), Report()
    with pytest.raises(OSError, match="on fire"):
        job.run(first)
    assert first.ran == ["load", "sum"]
    assert first.steps == {"load": [1, 2, 3], "sum": 6}, "as JSON carries it"
    second, again = FakeContext(attempt=2, steps=first.steps), first.resume(job)
    again.run(second)
    assert (second.ran, again.log[-1]) == (["print"], "total 6")
    assert again.log[0] == "rows [1, 2, 3]", "the first attempt sees the types that a later one would"


def test_seeded_steps_are_not_run_and_go_through_json_too():
    context, job = FakeContext(attempt=2, steps={"load": (7,), "sum": 7}), Report()
    job.run(context)
    assert (context.ran, job.log) == (["print"], ["rows [7]", "total 7"])


def test_a_drain_stops_a_workflow_between_steps():
    context = FakeContext(draining_after=2)
    with pytest.raises(JobInterrupted):
        Report().run(context)
    assert context.ran == ["load"]


def test_a_result_that_is_no_json_fails_here_already():
    with pytest.raises(BodyInvalid, match="'load'"):
        FakeContext(Count(end=1)).step("load", object)


def test_a_field_of_the_wrong_type_fails_at_the_checkpoint():
    with pytest.raises(BodyInvalid, match="does not fit"):
        Count(end=1.5, cursor=0).run(FakeContext())


def test_a_raw_job_has_checkpoints_but_no_steps():
    context = FakeContext()
    with pytest.raises(BodyInvalid, match="RawJob"):
        Lines(body=b"\xff").run(context)
    assert context.checkpoints == [Lines(body=b"\xff")]


@pytest.mark.parametrize("wait", [lambda context: context.wait_for("paid"), lambda context: context.call(Count(end=1))])
def test_a_job_that_begins_to_wait_says_how_a_test_lets_it_go_on(wait):
    with pytest.raises(JobSleeps) as caught:
        wait(FakeContext(Count(end=1)))
    assert "in a test: FakeContext(results={'CALL': […]}, events={'EVENT': […]})" in caught.value.__notes__[0]


@pytest.mark.parametrize("given", [{"events": {"paid": "42"}}, {"results": {"Count": 42}}, {"results": {"Go": b"4"}}])
def test_what_has_come_is_a_list_even_of_one(given):
    with pytest.raises(TypeError, match=r"has to be a list, in the order of arrival; for a single one: \[b?'?42?'?\]"):
        FakeContext(**given)


def test_an_asynchronous_job():
    context = FakeContext()
    asyncio.run(Polite(word="hello").run(context))
    assert context.checkpoints == [Polite(word="hello")]


def test_what_a_job_says_of_its_progress_is_noted():
    class Says(Job):
        def run(self, context):
            context.progress(1, 2, "half")
            context.progress(2)

    context = FakeContext(draining_after=1)
    Says().run(context)
    assert context.progress_reports == [Progress(1, 2, "half"), Progress(2)]
    assert context.checkpoints == []
    with pytest.raises(BodyInvalid, match="RawJob"):
        FakeContext(Lines(body=b"")).progress(1)


class Threaded(Job):
    def run(self, context):
        thread = Thread(target=self.work, args=(context.checkpoint,))
        thread.start()
        thread.join()

    def work(self, checkpoint):
        try:
            checkpoint()
        except LookupError as error:
            problems.append(str(error))


problems = []


def test_a_job_with_threads_says_whose_context_it_is():
    problems.clear()
    Threaded().run(FakeContext())
    assert len(problems) == 1
    assert "FakeContext(job)" in problems[0]
    job = Threaded()
    context = FakeContext(job)
    job.run(context)
    assert (len(problems), context.checkpoints) == (1, [Threaded()])

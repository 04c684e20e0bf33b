"""Jobs that call others, in every way in which an attempt can end."""

import asyncio
from typing import Any, ClassVar

import pytest

from pinlater.errors import (
    BodyInvalid,
    JobFailed,
    JobWasCancelled,
    JoinTimeout,
    StepMismatch,
)
from pinlater.jobs.call_fingerprints import call_fingerprint
from pinlater.jobs.job import Job
from pinlater.jobs.waiting import JobWaits
from pinlater.model.messages import MessageWait
from pinlater.testing import FakeContext, killed_everywhere, run_inline
from tests.unit.jobs.photo_jobs import Album, Cover, Resize, Size, Twice, ran


@pytest.fixture(autouse=True)
def forget():
    ran.clear()


class Fragile(Job[int], queue="fragile", attempts=1):
    broken: ClassVar[set[int]] = set()
    number: int

    def run(self, context):
        ran.append(self.number)
        if self.number in self.broken:
            raise ValueError("broken")
        return self.number


class Summary(Job[list[int]], queue="summaries"):
    def run(self, context):
        return context.call_all([Fragile(number=number) for number in (1, 2, 3)], name="fragile")


class Tolerant(Job[list[str]], queue="albums"):
    photos: list[int]

    def run(self, context):
        ends = context.call_all([Resize(photo=photo) for photo in self.photos], name="resize", return_failures=True)
        return [str(end) if isinstance(end, JobFailed) else f"{end.width} wide" for end in ends]


class AtOnce(Job[list[int]], queue="albums"):
    async def run(self, context):
        async def call(photo):
            await asyncio.sleep(0)
            return context.call(Resize(photo=photo), name=f"resize {photo}").width

        return await asyncio.gather(call(1), call(2), call(3))


def result_of(client, job):
    return client.enqueue(job).result(timeout=0)


def test_results_come_in_the_order_of_the_jobs():
    with run_inline(Album, Resize) as client:
        assert result_of(client, Album(photos=[3, 1, 2])) == [30, 10, 20]
    assert ran == [3, 1, 2]


@pytest.mark.parametrize("value", [Album, "Album", [Album(photos=[])]])
def test_what_is_no_job_cannot_be_called(value):
    with pytest.raises(TypeError, match=r"is no job, but of type|is a class of jobs; enqueue a job of it: Album"):
        FakeContext(Album(photos=[])).call(value)


def test_nothing_is_called_for_no_jobs():
    with run_inline(Album, Resize) as client:
        assert result_of(client, Album(photos=[])) == []


def test_calls_can_be_made_one_after_the_other_and_by_called_jobs():
    with run_inline(Twice, Cover, Resize) as client:
        assert result_of(client, Twice()) == [10, 20]
    assert ran == [1, 2]


def test_a_failed_job_fails_its_parent_for_good_and_is_named():
    with run_inline(Album, Resize) as client:
        handle = client.enqueue(Album(photos=[1, -2, -3]))
        status = handle.status()
    assert "JobFailed: Resize photos:s1:p1:3 failed: ValueError: no photo -2" in status.status
    assert status.attempts_remaining == 0
    assert ran == [1, -2, -2, -3, -3], "all have ended"


def test_failures_can_be_had_in_place_of_results():
    with run_inline(Tolerant, Resize) as client:
        found = result_of(client, Tolerant(photos=[1, -2]))
    assert found == ["10 wide", "Resize photos:s1:p1:3 failed: ValueError: no photo -2"]


def test_a_person_who_retries_the_parent_retries_the_failed_children(pinlater_server):
    client, broken = pinlater_server.client(Fragile, Summary), {2, 3}
    Fragile.broken = broken
    handle = client.enqueue(Summary())
    for repaired in (2, 3):
        pinlater_server.run_worker(Fragile, Summary)
        assert handle.status().state.name == "FAILED"
        broken.discard(repaired)
        assert client.retry_failed("summaries") == 1
    pinlater_server.run_worker(Fragile, Summary)
    assert handle.result(timeout=10) == [1, 2, 3]
    assert ran == [1, 2, 3, 2, 3, 3]


def test_a_cancelled_job_that_a_person_retries_learns_what_became_of_its_children(pinlater_server):
    client = pinlater_server.client(Album, Resize)
    handle = client.enqueue(Album(photos=[1, 2]))
    pinlater_server.run_worker(Album)
    assert handle.cancel()
    assert client.retry_failed("albums") == 1
    pinlater_server.run_worker(Album, Resize)
    with pytest.raises(JobFailed, match="cancelled"):
        handle.result(timeout=10)
    assert client.retry_failed("albums") == 1
    pinlater_server.run_worker(Album, Resize)
    assert handle.result(timeout=10) == [10, 20]


def test_several_calls_at_once_are_all_under_way():
    with run_inline(AtOnce, Resize) as client:
        assert result_of(client, AtOnce()) == [10, 20, 30]
        attempts = [outcome for outcome in client.outcomes if isinstance(outcome.job, AtOnce)]
        assert {wait.name for wait in attempts[0].waits_for} == {f"call/0/resize {photo}" for photo in (1, 2, 3)}
    assert ran == [1, 2, 3]


@pytest.mark.parametrize("job", [Album(photos=[1, 2, 3]), Twice(), AtOnce()])
def test_wherever_it_is_killed_each_job_is_called_once(job):
    for client in killed_everywhere(type(job), Resize, Cover):
        ran.clear()
        handle = client.enqueue(job)
        client.assert_succeeded()
        assert handle.result(timeout=0) in ([10, 20, 30], [10, 20]), client.killed_at
        called = [name for name in client._jobs if name.startswith("photos")]
        assert len(called) == len(handle.result(timeout=0)), client.killed_at


class Loose(Job[int], queue="loose"):
    value: Any

    def run(self, context):
        return len(self.value)


@pytest.mark.parametrize("value", [object(), "\ud800", {(1, 2): 3}])
def test_a_child_that_no_body_can_hold_is_refused_before_anything_is_recorded(value):
    context = FakeContext(Album(photos=[]))
    with pytest.raises(BodyInvalid, match="job Loose cannot be written as JSON"):
        context.call(Loose(value=value))
    assert context.recorded().calls == {}


@pytest.mark.parametrize(("what", "why"), [(Resize, r"enqueue a job of it: Resize\("), (7, "7 is no job")])
def test_only_jobs_can_be_called(what, why):
    context = FakeContext(Album(photos=[]))
    with pytest.raises(TypeError, match=why):
        context.call_all([what], name="resize")
    assert context.recorded().calls == {}


class Caller(Job[int], queue="callers"):
    value: dict[int, str]

    def run(self, context):
        return context.call(Loose(value=self.value))


def test_a_child_may_have_a_dict_whose_keys_are_numbers():
    with run_inline(Caller, Loose) as client:
        assert result_of(client, Caller(value={2: "b", 1: "a"})) == 2
    one, same, other = ([Loose(value=value)] for value in ({2: "b", 1: "a"}, {1: "a", 2: "b"}, {1: "a", 2: "c"}))
    assert call_fingerprint(one) == call_fingerprint(same) != call_fingerprint(other)


# With a fake context


def test_results_can_be_given_to_a_fake_context():
    context = FakeContext(results={"resize": [Size(5), Size(6)]})
    assert Album(photos=[1, 2]).run(context) == [5, 6]
    assert context.called == {"resize": [Resize(photo=1), Resize(photo=2)]}


def test_a_fake_job_can_fail_or_be_cancelled():
    context = FakeContext(results={"Resize": [JobWasCancelled("not needed")]})
    with pytest.raises(JobWasCancelled, match="was cancelled: not needed"):
        Cover(photo=1).run(context)


def test_without_results_the_job_waits_for_all():
    context = FakeContext()
    with pytest.raises(JobWaits) as caught:
        Album(photos=[1, 2]).run(context)
    assert caught.value.waits == (MessageWait("call/0/resize", 2),)
    with pytest.raises(JobWaits):
        context.sleep_for(1, name="never")


def test_a_given_result_has_to_fit_the_class():
    with pytest.raises(StepMismatch, match="call 'Resize': the result of a Resize does not fit its class: "):
        Cover(photo=1).run(FakeContext(results={"Resize": [5]}))


def test_time_can_run_out_once_and_for_all():
    class Impatient(Job[str], queue="albums"):
        def run(self, context):
            try:
                context.call(Resize(photo=1), timeout=60)
            except JoinTimeout as error:
                return str(error)
            raise AssertionError

    context = FakeContext(timed_out=["Resize"])
    assert Impatient().run(context) == "not all jobs of call 'Resize' have ended in time"
    late = FakeContext(previous=context, results={"Resize": [Size(1)]})
    assert Impatient().run(late) == "not all jobs of call 'Resize' have ended in time"

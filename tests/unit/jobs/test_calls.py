"""Jobs that call others, in every way in which an attempt can end."""

import asyncio
import copy
import functools
import math
import re
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

import msgspec
import pytest

from pinlater.errors import (
    BodyInvalid,
    JobFailed,
    JobInterrupted,
    JobSleeps,
    JobWasCancelled,
    JoinTimeout,
    StepMismatch,
)
from pinlater.jobs import child_calls
from pinlater.jobs.call_fingerprints import call_fingerprint
from pinlater.jobs.child_calls import ChildCalls
from pinlater.jobs.job import Job, RawJob
from pinlater.jobs.settled import SettledErrors
from pinlater.jobs.waiting import JobWaits
from pinlater.model.messages import MessageKind, MessageWait, ReceivedMessage
from pinlater.model.wait_records import MOST_RANGES, CallRecord
from pinlater.testing import FakeContext, killed_everywhere, run_inline

ran = []


@pytest.fixture(autouse=True)
def forget():
    ran.clear()


@dataclass
class Size:
    width: int


class Resize(Job[Size], queue="photos", attempts=2):
    photo: int

    def run(self, context):
        ran.append(self.photo)
        if self.photo < 0:
            raise ValueError(f"no photo {self.photo}")
        return Size(self.photo * 10)


class Album(Job[list[int]], queue="albums"):
    photos: list[int]

    def run(self, context):
        sizes = context.call_all([Resize(photo=photo) for photo in self.photos], name="resize", batch_size=2)
        return [size.width for size in sizes]


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


class Cover(Job[Size], queue="albums"):
    photo: int

    def run(self, context):
        return context.call(Resize(photo=self.photo))


class Twice(Job[list[int]], queue="albums"):
    """Calls one job after another under the same name, and a job that calls itself."""

    def run(self, context):
        return [context.call(Cover(photo=number), name="cover").width for number in (1, 2)]


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


# The record


def test_the_record_of_many_jobs_is_small():
    context = FakeContext(job := Album(photos=list(range(2000))))
    with pytest.raises(JobSleeps):
        job.run(context)
    assert len(context._body) - len(str(job.photos)) < 1000
    assert len(context.called["resize"]) == 2000


def test_a_kill_between_batches_repeats_the_last_one_with_its_key():
    keys, stored, context = [], [], None

    class Link:
        def read(self, name, after, limit):
            return []

        def enqueue(self, children):
            keys.append(children.key)
            if len(keys) == 2:
                raise KeyboardInterrupt
            stored.append([parent.position for _, parent in children.jobs])
            return [f"photos:s1:p1:{number}" for number in range(2)]

    for _ in range(2):
        context = FakeContext(Album(photos=[]), previous=context)
        calls = ChildCalls(context, context._metadata, Link(), context._save, SettledErrors())
        with pytest.raises((KeyboardInterrupt, JobWaits)):
            calls.join([Resize(photo=1)] * 4, "resize", timeout=None, batch_size=2 + len(keys), options={})
    assert keys == [f"test:s1:p1:1/call/0/resize/{start}/photos" for start in (0, 2, 2)]
    assert stored == [[0, 1], [2, 3]]


@pytest.mark.parametrize(("seconds", "repeated"), [(math.inf, [2, 4]), (0.0, [4])])
def test_a_kill_repeats_what_was_enqueued_since_the_last_save_with_its_keys(monkeypatch, seconds, repeated):
    monkeypatch.setattr(child_calls, "_SAVE_SECONDS", seconds)
    starts, saved = [], [{}]

    class Link:
        def read(self, name, after, limit):
            return []

        def enqueue(self, children):
            starts.append(int(children.key.split("/")[-2]))
            if len(starts) == 3:
                raise KeyboardInterrupt
            at = starts[-1]
            return [f"photos:s1:p1:{number}" for number in range(at + 1, at + 1 + len(children.jobs))]

    def save(context):
        saved.append(copy.deepcopy(context._metadata.calls))

    for _ in range(2):
        context = FakeContext(Album(photos=[]))
        context._metadata.calls = copy.deepcopy(saved[-1])
        calls = ChildCalls(context, context._metadata, Link(), functools.partial(save, context), SettledErrors())
        with pytest.raises((KeyboardInterrupt, JobWaits)):
            calls.join([Resize(photo=1)] * 6, "resize", timeout=None, batch_size=2, options={})
    assert starts == [0, 2, 4, *repeated]
    assert saved[-1]["resize"].ranges == [("photos:s1:p1:1", 6)]
    assert [calls["resize"].enqueued for calls in saved[1:]] == [2, 4, 6]


def test_a_task_that_begins_when_another_has_ended_waiting_makes_its_own_calls():
    """Python gives the id of a task that is gone to the next one."""
    context = FakeContext(Album(photos=[]))

    async def call(number):
        context.call(Resize(photo=number), name=f"photo {number}")

    async def call_one_after_the_other():
        for number in range(20):
            with pytest.raises(JobWaits):
                await asyncio.create_task(call(number))

    asyncio.run(call_one_after_the_other())
    assert list(context.called) == [f"photo {number}" for number in range(20)]
    assert len(context.interruption.waits) == 20


@pytest.mark.parametrize("killed_at", [1, 2])
def test_children_that_have_ended_are_not_enqueued_again(killed_at):
    """Their idempotency key may be forgotten, if the attempt before was killed between an enqueue and its save."""
    stored, saves = [], [{}]

    class Link:
        def read(self, name, after, limit):
            return stored[after : after + limit]

        def enqueue(self, children):
            for _, parent in children.jobs:
                stored.append(
                    ReceivedMessage(len(stored) + 1, str(parent.position), b'{"width":1}', MessageKind.SUCCEEDED)
                )
            return [f"photos:s1:p1:{number}" for number in range(len(stored), len(stored) + len(children.jobs))]

    def call():
        def save():
            if len(saves) == killed_at:
                raise OSError
            saves.append(copy.deepcopy(context._metadata.calls))

        context = FakeContext(Album(photos=[]))
        context._metadata.calls = copy.deepcopy(saves[-1])
        calls = ChildCalls(context, context._metadata, Link(), save, SettledErrors())
        return calls.join([Resize(photo=1)] * 2 * killed_at, "resize", timeout=None, batch_size=2, options={})

    with pytest.raises(OSError):
        call()
    assert call().results() == [Size(1)] * 2 * killed_at
    assert len(stored) == 2 * killed_at


def test_a_parent_waits_for_all_positions_if_a_position_has_two_children():
    """An enqueue that is repeated after days, when its key is forgotten, makes such twins; their first end counts.

    A position that the call does not have is that of a former attempt's, which was killed before it saved its call.
    """
    stored = []

    class Link:
        def read(self, name, after, limit):
            return stored[after : after + limit]

        def enqueue(self, children):
            return [f"photos:s1:p1:{number}" for number in range(len(children.jobs))]

    def call(*ended):
        for position, width in ended:
            payload = b'{"width":%d}' % width
            stored.append(ReceivedMessage(len(stored) + 1, str(position), payload, MessageKind.SUCCEEDED))
        context = FakeContext(Album(photos=[]))
        calls = ChildCalls(context, context._metadata, Link(), context._save, SettledErrors())
        return calls.join([Resize(photo=1)] * 3, "resize", timeout=None, batch_size=2, options={})

    for ended, needed in [((), 3), (((0, 1), (1, 2), (0, 9)), 4), (((1, 9),), 5), (((3, 9),), 6)]:
        with pytest.raises(JobWaits) as waiting:
            call(*ended)
        assert waiting.value.waits == (MessageWait("call/0/resize", needed),)
    assert call((2, 3)).results() == [Size(1), Size(2), Size(3)]


def test_a_parent_that_is_deleted_while_it_reads_its_messages_reads_no_more():
    reads = []

    class Link:
        def read(self, name, after, limit):
            reads.append(after)
            assert len(reads) < 10
            return [ReceivedMessage(3, "2", b"", MessageKind.SUCCEEDED)] if len(reads) == 1 else []

        def enqueue(self, children):
            return [f"photos:s1:p1:{number}" for number in range(len(children.jobs))]

    context = FakeContext(Album(photos=[]))
    calls = ChildCalls(context, context._metadata, Link(), context._save, SettledErrors())
    with pytest.raises(JobWaits):
        calls.join([Resize(photo=1)] * 3, "resize", timeout=None, batch_size=3, options={})
    assert reads == [2, 0]


def test_descriptors_of_children_are_kept_as_ranges_as_long_as_these_are_few():
    record = CallRecord(1000, 500)
    record.add(["q:s1:p1:7", "q:s1:p1:8", "q:s1:p2:9"])
    assert record.ranges == [("q:s1:p1:7", 2), ("q:s1:p2:9", 1)]
    assert record.descriptors() == ["q:s1:p1:7", "q:s1:p1:8", "q:s1:p2:9"]
    many = CallRecord(1000, 500)
    many.add([f"q:s1:p1:{number}" for number in range(0, 1000, 2)])
    many.enqueued = 500
    many.add(["q:s1:p1:1000"])
    assert len(many.ranges) == MOST_RANGES


def test_other_jobs_than_before_are_no_answer_to_the_same_call():
    context = FakeContext(results={})
    with pytest.raises(JobSleeps):
        Album(photos=[1, 2]).run(context)
    with pytest.raises(StepMismatch, match="of 3 jobs now, but of 2 when"):
        Album(photos=[1, 2, 3]).run(FakeContext(previous=context))


class Night(Job[list[int]], queue="albums"):
    jobs: ClassVar[list[Job]] = []

    def run(self, context):
        return context.call_all(self.jobs, name="night")


class Stamped(Job, queue="photos"):
    photo: int
    tags: list[str] = msgspec.field(default_factory=list)
    width: int = 10
    at: float = msgspec.field(default_factory=count().__next__)


ONE, TWO = Resize(photo=1), Resize(photo=2)
SAME_CLASS = "the recorded one is a call of Resize with other arguments"


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ([ONE], [TWO], f"call 'night' is of Resize(photo=2) now, but {SAME_CLASS}. Give the same jobs"),
        ([ONE, TWO], [TWO, ONE], SAME_CLASS),
        ([ONE], [Cover(photo=1)], "is of Cover(photo=1) now, but the recorded one is a call of Resize. "),
        ([ONE, Cover(photo=1)], [ONE, TWO], "the recorded one is a call of Cover, Resize. "),
        ([ONE] * 4, [TWO] * 4, "is of Resize(photo=2), Resize(photo=2), Resize(photo=2), … (4 jobs) now"),
        ([RawJob(body=b"a")], [RawJob(body=b"b")], "the recorded one is a call of RawJob with other arguments"),
        ([Stamped(photo=1)], [Stamped(photo=1, width=11)], "a call of Stamped with other arguments"),
    ],
)
def test_a_call_of_other_jobs_is_another_call(monkeypatch, before, now, said):
    context = FakeContext(results={})
    monkeypatch.setattr(Night, "jobs", before)
    with pytest.raises(JobSleeps):
        Night().run(context)
    monkeypatch.setattr(Night, "jobs", now)
    with pytest.raises(StepMismatch, match=re.escape(said)):
        Night().run(FakeContext(previous=context))


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ([Stamped(photo=1)], [Stamped(photo=1)]),
        ([Stamped(photo=1, tags=["a"])], [Stamped(photo=1, tags=["a"], width=10)]),
        ([ONE] * 1000, [ONE] * 1000),
    ],
    ids=["made anew", "default given", "many"],
)
def test_a_call_of_the_same_jobs_is_the_same_call(before, now):
    assert call_fingerprint(before) == call_fingerprint(now)


def test_a_class_may_get_new_fields_with_defaults():
    class Wider(Job[Size], name="Resize", queue="photos"):
        photo: int
        quality: int = 80

    assert call_fingerprint([Wider(photo=1)]) == call_fingerprint([ONE])
    assert call_fingerprint([Wider(photo=1, quality=9)]) != call_fingerprint([ONE])


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


def test_a_call_says_under_which_use_of_its_name_it_was_recorded():
    class Reordered(Job, queue="albums"):
        def run(self, context):
            context.call(Cover(photo=2), name="cover")

    context = FakeContext(results={"cover": [Size(1)], "cover#2": []})
    with pytest.raises(JobSleeps):
        Twice().run(context)
    with pytest.raises(StepMismatch, match="this call was recorded as 'cover#2'"):
        Reordered().run(FakeContext(previous=context))


def test_a_call_that_was_recorded_without_a_fingerprint_is_taken_as_it_is(monkeypatch):
    context = FakeContext(results={})
    monkeypatch.setattr(Night, "jobs", [ONE])
    with pytest.raises(JobSleeps):
        Night().run(context)
    context._metadata.calls["night"].fingerprint = ""  # by an older version
    monkeypatch.setattr(Night, "jobs", [TWO])
    with pytest.raises(JobSleeps):
        Night().run(FakeContext(previous=context))


def test_a_drain_comes_between_batches():
    context = FakeContext(job := Album(photos=[1, 2, 3, 4]), draining_after=2)
    with pytest.raises(JobInterrupted) as caught:
        job.run(context)
    assert type(caught.value) is JobInterrupted
    assert len(context.called["resize"]) == 2


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

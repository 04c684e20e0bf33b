"""What a job keeps of its calls, so that it goes on with them wherever it was killed."""

import asyncio
import copy
import functools
import math
import re
from itertools import count
from typing import ClassVar

import msgspec
import pytest

from pinlater.errors import (
    JobInterrupted,
    JobSleeps,
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
from pinlater.testing import FakeContext
from tests.unit.jobs.photo_jobs import Album, Cover, Resize, Size, Twice, ran


@pytest.fixture(autouse=True)
def forget():
    ran.clear()


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

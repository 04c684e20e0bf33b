"""context.iterate: what it gives, when it counts, what is saved."""

import msgspec
import pytest

from pinlater import Job, JobInterrupted
from pinlater.jobs.body_codec import encode_body
from pinlater.jobs.cursor import iterate
from pinlater.testing import FakeContext, run_inline
from pinlater.worker.running.run_context import RunContext
from tests.support.savers import InBody
from tests.unit.worker.fakes import batch_of


class Walk(Job, queue="walk", heartbeat=0):
    items: list[str]
    fail_once_at: str = ""
    cursor: int = 0
    other: int = 0

    def run(self, context):
        for item in context.iterate(self.items):
            seen.append((context.attempt, item))
            if item == self.fail_once_at and context.attempt == 1:
                raise ValueError(item)


seen = []


@pytest.fixture(autouse=True)
def forget():
    seen.clear()


def walk(job, items, cursor="cursor"):
    """Return the loop, and what its checkpoints have found."""
    found = []
    return iterate(job, items, cursor, lambda: None, lambda: found.append(getattr(job, cursor))), found


@pytest.mark.parametrize("kind", [list, tuple, "".join, iter, lambda items: (item for item in items)])
def test_it_goes_on_at_the_cursor_and_saves_after_each_item(kind):
    job = Walk(items=[], cursor=2)
    loop, found = walk(job, kind(list("abcd")))
    assert [(item, job.cursor) for item in loop] == [("c", 2), ("d", 3)], "an item counts when it is finished"
    assert found == [3, 4]
    assert job.cursor == 4


def test_a_sequence_is_entered_at_the_cursor():
    job = Walk(items=[], cursor=10**12 - 1)
    assert list(walk(job, range(10**12))[0]) == [10**12 - 1]


@pytest.mark.parametrize("cursor", [3, 4, 100])
def test_at_the_end_there_is_nothing(cursor):
    job = Walk(items=[], cursor=cursor)
    loop, found = walk(job, "abc")
    assert (list(loop), found, job.cursor) == ([], [], cursor)


def test_an_item_left_by_break_is_not_finished():
    job = Walk(items=[])
    loop, found = walk(job, "abcd")
    for item in loop:
        if item == "c":
            break
    loop.close()
    assert (job.cursor, found) == (2, [1, 2])


def test_two_loops_count_in_two_fields():
    job = Walk(items=[], other=1)
    assert list(walk(job, "ab")[0]) == ["a", "b"]
    assert list(walk(job, "xyz", "other")[0]) == ["y", "z"]
    assert (job.cursor, job.other) == (2, 3)


@pytest.mark.parametrize("name", ["missing", "fail_once_at", "items", "run"])
def test_a_field_that_cannot_count_is_an_error_before_the_first_item(name):
    with pytest.raises(TypeError, match=f'give Walk "{name}: int = 0"'):
        walk(Walk(items=[]), "abc", name)


def test_a_negative_cursor_is_an_error():
    with pytest.raises(ValueError, match="cannot be negative"):
        walk(Walk(items=[], cursor=-1), "abc")


def test_a_failed_attempt_repeats_only_the_item_that_failed():
    with run_inline(Walk) as client:
        client.enqueue(Walk(items=list("abcd"), fail_once_at="c"))
        client.assert_succeeded()
    assert seen == [(1, "a"), (1, "b"), (1, "c"), (2, "c"), (2, "d")]


def test_a_drain_interrupts_between_items():
    context, job = FakeContext(draining_after=2), Walk(items=list("abcd"))
    with pytest.raises(JobInterrupted):
        job.run(context)
    assert [saved.cursor for saved in context.checkpoints] == [1, 2]
    context.resume(job).run(FakeContext())
    assert [item for _, item in seen] == list("abcd")


class Keeps(InBody):
    is_draining = False

    def __init__(self):
        self.cursors = []

    def save(self, batch, position, encode):
        self.cursors.append(msgspec.json.decode(encode().body)["cursor"])
        return True


def test_a_worker_saves_the_cursor():
    job, saver = Walk(items=list("abc"), cursor=1), Keeps()
    job.run(RunContext(job, batch_of("walk:s1:p1:7", bodies=[encode_body(job)]), 0, saver))
    assert saver.cursors == [2, 3]

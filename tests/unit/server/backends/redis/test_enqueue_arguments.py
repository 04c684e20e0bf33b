"""What Redis is sent of new jobs: text for what all have, once for jobs that are alike, and the rest of few jobs."""

import asyncio

import msgspec
import pytest

from pinlater.errors import UnknownError
from pinlater.model.jobs import NewJob
from pinlater.model.keys import JobKey
from pinlater.model.messages import Parent
from pinlater.model.unique import OnDuplicate, UniqueRule
from pinlater.server.backends.records import IdempotencyKey
from pinlater.server.backends.redis import lifecycle

ONCE = IdempotencyKey(b"k" * 16, 600_000)
PARENT = Parent("mail:s1:p2:41", "call", 3)


class Scripts:
    """Takes the place of a shard; remembers the arguments of a script."""

    name = "1"

    async def run(self, script, queue, *arguments, is_repeatable):
        self.script, self.queue, self.arguments, self.is_repeatable = script, queue, arguments, is_repeatable
        return [b"41"]


def sent(*jobs, once=ONCE):
    scripts = Scripts()
    asyncio.run(lifecycle.enqueue(scripts, "mail", jobs, once))
    return scripts.arguments


def test_a_plain_job_takes_nothing_to_unpack():
    assert sent(NewJob(b"{}", attempts=3)) == (ONCE.value, ONCE.keep_ms, 1, "1 1  3,", b"", b"{}")


def test_jobs_in_a_row_that_are_alike_are_described_once():
    jobs = [NewJob(b"a"), NewJob(b"b"), NewJob(b"c", 2, 2**60, 1), NewJob(b"d", run_after_ms=0), NewJob(b"e")]
    assert sent(*jobs)[2:] == (5, f"2 1  2,1 2 {2**60} 1,1 1 0 2,1 1  2,", b"", b"a", b"b", b"c", b"d", b"e")


@pytest.mark.parametrize(
    ("job", "extras", "mark"),
    [
        (NewJob(b"b", status="new"), ["new", None, None, None], ()),
        (NewJob(b"b", unique="u"), ["", "u", None, None], ()),
        (
            NewJob(b"b", unique="u", unique_rule=UniqueRule(on_duplicate=OnDuplicate.REPLACE)),
            ["", "u", [False, 0, 1, None], None],
            ("keyed",),
        ),
        (NewJob(b"b", key=JobKey("k", 2)), ["", None, None, ["k", 2, None]], ("keyed",)),
    ],
)
def test_what_few_jobs_have_is_sent_of_those(job, extras, mark):
    *_, packed, plain, body = arguments = sent(NewJob(b"a"), job)[:7]
    assert (plain, body) == (b"a", b"b")
    assert arguments[3] == "2 1  2,"
    assert msgspec.msgpack.decode(packed) == [{2: extras}, []]
    assert sent(NewJob(b"a"), job)[7:] == mark


def test_parents_are_sent_once_for_jobs_in_a_row_whose_positions_follow_each_other():
    children = [NewJob(b"c", parent=PARENT._replace(position=position)) for position in (3, 4, 5, 9)]
    named = NewJob(b"n", parent=PARENT._replace(name="again", position=10))
    elsewhere = NewJob(b"e", parent=Parent("mail:s2:p2:41", "call", 0))
    jobs = [NewJob(b"a"), *children, named, NewJob(b"b"), elsewhere]
    *_, packed = sent(*jobs)[:5]
    families = [[2, 3, "mail 2 41", 3, "call"], [5, 1, "mail 2 41", 9, "call"]]
    families += [[6, 1, "mail 2 41", 10, "again"], [8, 1, "2:mail 2 41", 0, "call"]]
    assert msgspec.msgpack.decode(packed) == [None, families]
    assert sent(*jobs)[-1] == "links"


def test_a_child_with_a_key_is_sent_with_both():
    job = NewJob(b"b", key=JobKey("k", 2), parent=PARENT)
    packed, _, mark = sent(job)[4:]
    assert msgspec.msgpack.decode(packed) == [{1: ["", None, None, ["k", 2, None]]}, [[1, 1, "mail 2 41", 3, "call"]]]
    assert mark == "keyed links"


def test_only_a_call_with_an_idempotency_key_may_be_sent_again():
    scripts = Scripts()
    for once in (None, ONCE):
        asyncio.run(lifecycle.enqueue(scripts, "mail", [NewJob(b"{}")], once))
        assert scripts.is_repeatable == (once is not None)


def test_a_time_that_cannot_be_stored_is_refused():
    with pytest.raises(UnknownError, match="nothing was changed"):
        sent(NewJob(b"{}", run_after_ms=2**63))

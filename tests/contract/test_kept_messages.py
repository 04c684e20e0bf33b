"""Messages that a running job keeps with its checkpoints, for its later attempts."""

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import MAX_DROPPED, Message, MessageKind, Parent, ReceivedMessage
from pinlater.protocol.messages import IN_PROGRESS
from tests.support.bench import FAR_MS, QUEUE, new_job

PAYLOAD = b"\xff\0\"\\'{}" * 1000
STEPS = "steps/0"


def kept(*ids, name=STEPS, payload=PAYLOAD):
    return [Message(name, message_id, payload) for message_id in ids]


def ids(backend, descriptor, name=STEPS):
    return [(one.number, one.id) for one in backend.read(descriptor, name)]


def test_they_are_stored_with_the_body(backend):
    descriptor, claim = backend.started()
    assert backend.checkpoint(descriptor, claim=claim, body=b"one", keeps=kept("a", "b")).changed == 1
    backend.checkpoint(descriptor, claim=claim, body=b"two", keeps=kept("c", payload=b""))
    backend.crash()
    assert backend.look(descriptor).body == b"two"
    assert backend.read(descriptor, STEPS) == [
        ReceivedMessage(1, "a", PAYLOAD, MessageKind.EVENT),
        ReceivedMessage(2, "b", PAYLOAD, MessageKind.EVENT),
        ReceivedMessage(3, "c", b"", MessageKind.EVENT),
    ]


def test_twice_the_same_is_there_once(backend):
    descriptor, claim = backend.started()
    for some in ("a", "ab", "bca"):
        backend.checkpoint(descriptor, claim=claim, keeps=kept(*some))
    assert ids(backend, descriptor) == [(1, "a"), (2, "b"), (3, "c")]


STALE = {
    "another claim": lambda claim: {"claim": f"{claim}0"},
    "another source": lambda _: {"source": "somebody"},
}


@pytest.mark.parametrize("how", STALE.values(), ids=STALE)
def test_who_does_not_hold_the_job_keeps_and_drops_nothing(backend, how):
    descriptor, claim = backend.started()
    backend.checkpoint(descriptor, claim=claim, keeps=kept("a"))
    stale = {"keeps": kept("b"), "drops": [STEPS], "body": b"x", **how(claim)}
    assert backend.checkpoint(descriptor, **stale).changed == 0
    assert ids(backend, descriptor) == [(1, "a")]


def test_a_job_that_was_given_back_keeps_and_drops_nothing(backend):
    descriptor, claim = backend.started()
    backend.checkpoint(descriptor, claim=claim, keeps=kept("a"), move_to_pending=True, run_after_ms=FAR_MS)
    assert backend.checkpoint(descriptor, claim=claim, keeps=kept("b"), drops=[STEPS]).changed == 0
    assert ids(backend, descriptor) == [(1, "a")]


def test_the_source_is_enough_without_a_claim(backend):
    descriptor, _ = backend.started()
    assert backend.checkpoint(descriptor, keeps=kept("a")).changed == 1
    assert ids(backend, descriptor) == [(1, "a")]


def test_dropped_by_name(backend):
    descriptor, claim = backend.started()
    backend.checkpoint(descriptor, claim=claim, keeps=[*kept("a", "b"), *kept("a", name="steps/1")])
    backend.send(descriptor, "event/go", "1")
    backend.checkpoint(
        descriptor, claim=claim, drops=[STEPS, "nothing"], move_to_pending=True, run_after_ms=FAR_MS, attempts=3
    )
    assert ids(backend, descriptor) == []
    assert ids(backend, descriptor, "steps/1") == [(1, "a")]
    assert ids(backend, descriptor, "event/go") == [(1, "1")]


def test_of_very_many_the_first_are_dropped_each_time(backend):
    parent, claim = backend.started(attempts=5)
    count = MAX_DROPPED + 5
    for start in range(0, count, 1000):
        places = range(start, min(start + 1000, count))
        children = backend.put(*[new_job(priority=2, parent=Parent(parent, "call/0/a", at)) for at in places])
        assert backend.cancel(*children).ended
    assert [one.number for one in backend.read(parent, "call/0/a", after=count - 1)] == [count]
    backend.checkpoint(parent, claim=claim, drops=["call/0/a"])
    left = backend.read(parent, "call/0/a", after=MAX_DROPPED)
    assert [one.number for one in left] == list(range(MAX_DROPPED + 1, count + 1))
    assert backend.read(parent, "call/0/a", after=MAX_DROPPED - 2, limit=1) == left[:1]
    assert backend.read(parent, "call/0/a") == left
    backend.checkpoint(parent, claim=claim, drops=["call/0/a"])
    assert backend.read(parent, "call/0/a", after=MAX_DROPPED) == ids(backend, parent, "call/0/a") == []


def test_a_name_begins_anew_when_it_was_dropped(backend):
    descriptor, claim = backend.started()
    backend.checkpoint(descriptor, claim=claim, keeps=kept("a", "b"))
    backend.checkpoint(descriptor, claim=claim, drops=[STEPS])
    backend.checkpoint(descriptor, claim=claim, keeps=kept("b", "a", "c"))
    assert ids(backend, descriptor) == [(1, "b"), (2, "a"), (3, "c")]


def test_a_job_that_falls_asleep_keeps_them_and_is_woken(backend):
    descriptor, claim = backend.started()
    backend.sleep(descriptor, ("go", 1), claim=claim, keeps=kept("a"))
    assert backend.take() == []
    backend.send(descriptor, "go", "1")
    assert backend.take_names() == [descriptor]
    assert ids(backend, descriptor) == [(1, "a")]


def test_they_go_with_the_job(backend):
    descriptor, claim = backend.started()
    backend.checkpoint(descriptor, claim=claim, keeps=kept("a"))
    assert backend.delete_these_jobs(QUEUE, [JobDescriptor.parse(descriptor)], IN_PROGRESS) == 1
    assert ids(backend, descriptor) == []

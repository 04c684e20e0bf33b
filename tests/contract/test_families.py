"""Parents with many children, children of many parents, and children of children."""

import itertools

import pytest

from pinlater.model.keys import JobKey
from pinlater.model.messages import MAX_DROPPED, MessageKind, Parent
from pinlater.protocol.messages import SUCCEEDED
from tests.contract.test_import import record
from tests.support.bench import QUEUE, ack_of
from tests.support.families import OTHER, child_of, running_parent, started_child, told

pytestmark = pytest.mark.usefixtures("other_queue")


def test_a_parent_and_its_children_in_one_queue_and_of_any_priority(backend):
    parent, claim = running_parent(backend, priority=3)
    children = backend.put(*[child_of(parent, at, priority=at % 3 + 1) for at in range(9)])
    assert sorted(backend.take_names()) == sorted(children)
    backend.sleep(parent, ("resize", 9), claim=claim)
    backend.ack_dequeued_jobs(
        QUEUE,
        [ack_of(name, result=b"%d" % at) for at, name in enumerate(children) if at % 2],
        [ack_of(name, is_final=True) for at, name in enumerate(children) if not at % 2],
    )
    assert backend.take_names() == [parent]
    assert told(backend, parent) == {
        at: (MessageKind.SUCCEEDED, b"%d" % at) if at % 2 else (MessageKind.FAILED, b"") for at in range(9)
    }


def test_grandchildren_tell_their_own_parent(backend):
    parent, claim = running_parent(backend)
    child = started_child(backend, parent)
    (grandchild,) = backend.put(child_of(child, 5, name="crop"), queue=OTHER)
    backend.sleep(parent, ("resize", 1), claim=claim)
    backend.sleep(child, ("crop", 1), queue=OTHER)
    assert backend.take_names(queue=OTHER) == [grandchild]
    backend.ack(grandchild, queue=OTHER, result=b"cropped")
    assert backend.take() == []
    assert backend.take_names(queue=OTHER) == [child]
    assert told(backend, child, "crop") == {5: (MessageKind.SUCCEEDED, b"cropped")}
    backend.ack(child, queue=OTHER, result=b"resized")
    assert backend.take_names() == [parent]
    assert told(backend, parent) == {0: (MessageKind.SUCCEEDED, b"resized")}


def test_a_parent_and_its_child_that_end_in_one_call(backend):
    parent, _ = running_parent(backend)
    (child,) = backend.put(child_of(parent))
    backend.take()
    assert backend.ack(child, parent).changed == 2
    assert backend.state(parent) == backend.state(child) == SUCCEEDED


def test_children_of_several_parents_that_end_in_one_moment(backend, woken):
    parents = [running_parent(backend)[0] for _ in range(3)]
    children = backend.put(*[child_of(parent, at) for at in range(10) for parent in parents], queue=OTHER)
    backend.take(queue=OTHER)
    for parent in parents:
        backend.sleep(parent, ("resize", 10))
    calls = [
        lambda some=children[at : at + 3]: backend.backend.ack_dequeued_jobs(
            OTHER, [ack_of(name, result=name.encode()) for name in some], []
        )
        for at in range(0, 30, 3)
    ]
    assert [one.changed for one in backend.together(*calls)] == [3] * 10
    assert sorted(backend.take_names()) == sorted(parents)
    for at, parent in enumerate(parents):
        results = {int(one.id): one.payload.decode() for one in backend.read(parent, "resize")}
        assert results == dict(enumerate(children[at::3]))
    assert sum(count for _, count in woken.heard) == 3


def test_names_of_children_are_counted_apart(backend):
    parent, claim = running_parent(backend)
    first, second = backend.put(child_of(parent, name="a"), child_of(parent, name="b"), queue=OTHER)
    backend.take(queue=OTHER)
    backend.sleep(parent, ("b", 1), claim=claim)
    backend.ack(first, queue=OTHER)
    assert backend.take() == []
    backend.ack(second, queue=OTHER)
    assert backend.take_names() == [parent]
    assert told(backend, parent, "a").keys() == told(backend, parent, "b").keys() == {0}


def test_many_children_of_one_parent(backend, woken):
    parent, claim = running_parent(backend)
    children = backend.put(*[child_of(parent, at) for at in range(600)], queue=OTHER)
    assert [backend.look(children[at]).parent.position for at in (0, 599)] == [0, 599]
    backend.take(600, queue=OTHER)
    backend.sleep(parent, ("resize", 600), claim=claim)
    for start in range(0, 600, 200):
        assert backend.take() == []
        backend.ack(*children[start : start + 200], queue=OTHER, result=b"x" * 100)
    woken.wait_for((QUEUE, 1))
    assert backend.take_names() == [parent]
    assert told(backend, parent) == dict.fromkeys(range(600), (MessageKind.SUCCEEDED, b"x" * 100))


ODD_NAMES = ["resize", "a]", "7]", '"', "b,1", "🚀é", "[7"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_many_children_that_end_at_once_one_of_which_has_told_before(backend, name):
    parent, _ = running_parent(backend, lease_ms=10**9)
    children = backend.put(*[child_of(parent, at, name=name) for at in range(12)], queue=OTHER)
    backend.take(queue=OTHER)
    backend.fail(children[5], queue=OTHER, is_final=True, status="why")
    backend.retry(queue=OTHER)
    backend.take(queue=OTHER)
    backend.ack(*children[3:], queue=OTHER, result=b"1")
    backend.ack(*children, queue=OTHER)
    expected = {at: (MessageKind.SUCCEEDED, b"1" if at >= 3 else b"") for at in range(12)}
    assert told(backend, parent, name) == expected | {5: (MessageKind.FAILED, b"why")}


def test_of_two_children_of_one_position_the_first_that_ends_is_told_first(backend):
    """An enqueue that is repeated after days, when its key is forgotten, makes such twins.

    Stores may tell of the second, too: parents count positions.
    """
    parent, _ = running_parent(backend)
    children = backend.put(*[child_of(parent, at) for at in (0, 1, 0, 2, 1)], queue=OTHER)
    backend.take(queue=OTHER)
    acks = [ack_of(child, result=b"%d" % number) for number, child in enumerate(children)]
    backend.ack_dequeued_jobs(OTHER, acks[1:2], [])
    backend.ack_dequeued_jobs(OTHER, acks, [])
    first = {int(one.id): one.payload for one in reversed(backend.read(parent, "resize"))}
    assert first == {0: b"0", 1: b"1", 2: b"3"}


SIZES = [0, 1, 70_000, 70_000, 0, 140_000, 3, 0, 60_000, 60_000, 20_000, 5]
"""Of results, which stores may keep together in parts of 128 KiB."""


def test_large_results_of_children_that_end_at_once(backend):
    parent, _ = running_parent(backend)
    children = backend.put(*[child_of(parent, at) for at in range(len(SIZES))], queue=OTHER)
    backend.take(len(SIZES), queue=OTHER)
    results = [bytes([at]) * size for at, size in enumerate(SIZES)]
    backend.ack_dequeued_jobs(OTHER, [ack_of(child, result=results[at]) for at, child in enumerate(children)], [])
    found = backend.read(parent, "resize")
    assert [(one.number, one.id, one.payload, one.kind) for one in found] == [
        (at + 1, str(at), result, MessageKind.SUCCEEDED) for at, result in enumerate(results)
    ]
    for after, limit in itertools.product(range(len(SIZES) + 2), (1, 2, 5)):
        assert backend.read(parent, "resize", after=after, limit=limit) == found[after : after + limit]
    assert backend.read(parent, "resize", after=1, max_bytes=150_000) == found[1:5]
    assert backend.read(parent, "resize", after=5, max_bytes=1) == found[5:6]


def test_results_between_events_failures_and_dropped_messages(backend):
    """Successes may be kept together: what came before, between and after them stays in order."""
    parent, claim = running_parent(backend, lease_ms=10**9)
    children = backend.put(*[child_of(parent, at) for at in range(9)], queue=OTHER)
    backend.take(queue=OTHER)
    backend.ack(*children[:3], queue=OTHER, result=b"1")
    assert backend.send(parent, "resize", "sent")
    backend.fail(children[3], queue=OTHER, is_final=True)
    backend.ack(*children[4:7], queue=OTHER, result=b"2")
    ids = ["0", "1", "2", "sent", "3", "4", "5", "6"]
    assert [(one.number, one.id) for one in backend.read(parent, "resize")] == list(enumerate(ids, 1))
    for after in range(9):
        assert [one.id for one in backend.read(parent, "resize", after=after, limit=2)] == ids[after : after + 2]
    backend.checkpoint(parent, claim=claim, drops=["resize"])
    assert backend.read(parent, "resize") == []
    backend.ack(*children[7:], queue=OTHER, result=b"3")
    assert [(one.number, one.id, one.payload) for one in backend.read(parent, "resize")] == [
        (1, "7", b"3"),
        (2, "8", b"3"),
    ]


def test_very_many_results_are_dropped_after_several_checkpoints(backend):
    parent, claim = running_parent(backend, lease_ms=10**9)
    children = backend.put(*[child_of(parent, at) for at in range(MAX_DROPPED + 500)], queue=OTHER)
    backend.take(len(children), queue=OTHER)
    for start in range(0, len(children), 700):
        backend.ack(*children[start : start + 700], queue=OTHER)
    backend.checkpoint(parent, claim=claim, drops=["resize"])
    left = [one.number for one in backend.read(parent, "resize", limit=2000)]
    assert left == list(range(len(children) - len(left) + 1, len(children) + 1))
    assert 0 <= len(left) <= 500
    backend.checkpoint(parent, claim=claim, drops=["resize"])
    assert backend.read(parent, "resize") == []


def test_a_child_that_a_dequeue_waits_for(backend):
    """Stores may take a short cut for a job that is handed out at once."""
    parent, claim = running_parent(backend)
    (child,), dequeued = backend.together(
        lambda: backend.backend.enqueue_jobs(OTHER, [child_of(parent)]),
        lambda: backend.backend.dequeue_jobs(OTHER, 1, backend.claim()),
    )
    assert [job.descriptor for job in dequeued.jobs or backend.take(queue=OTHER)] == [child]
    assert backend.look(child).parent == Parent(parent, "resize", 0)
    backend.sleep(parent, ("resize", 1), claim=claim)
    backend.ack(child, queue=OTHER)
    assert backend.take_names() == [parent]


def test_a_parent_with_a_key_is_woken(backend):
    parent = backend.asleep(("resize", 1), key=JobKey("a", 1))
    follower = backend.put_one(key=JobKey("a", 1))
    assert backend.take_names() == [follower]
    child = started_child(backend, parent)
    backend.ack(child, queue=OTHER)
    assert backend.take() == []
    backend.ack(follower)
    assert backend.take_names() == [parent]


def test_children_survive_a_crash(backend):
    parent, claim = running_parent(backend)
    child = started_child(backend, parent)
    backend.crash()
    backend.sleep(parent, ("resize", 1), claim=claim)
    backend.crash()
    backend.ack(child, queue=OTHER, result=b"1")
    backend.crash()
    assert backend.take_names() == [parent]
    assert told(backend, parent) == {0: (MessageKind.SUCCEEDED, b"1")}


def test_an_imported_job_has_no_parent(backend):
    parent, _ = running_parent(backend)
    given = record()._replace(parent=Parent(parent, "resize", 0))
    (name,) = backend.import_jobs(OTHER, [given])
    assert backend.look(name).parent is None

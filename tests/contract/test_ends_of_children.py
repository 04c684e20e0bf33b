"""Whatever ends a child tells its parent, once."""

import pytest

from pinlater.model.messages import MessageKind, ReceivedMessage
from pinlater.protocol.messages import IN_PROGRESS, SUCCEEDED
from tests.support.bench import QUEUE, ack_of
from tests.support.families import OTHER, child_of, delete_these, expire, running_parent, started_child, told

pytestmark = pytest.mark.usefixtures("other_queue")


def give_back(backend, name):
    backend.checkpoint(name, queue=OTHER, move_to_pending=True)


ENDS = {
    "succeeded": (lambda b, name: b.ack(name, queue=OTHER, result=b"\xff\0"), MessageKind.SUCCEEDED, b"\xff\0"),
    "succeeded without a result": (lambda b, name: b.ack(name, queue=OTHER), MessageKind.SUCCEEDED, b""),
    "succeeded with a status": (
        lambda b, name: b.ack(name, queue=OTHER, status="ok", result=b"1"), MessageKind.SUCCEEDED, b"1",
    ),
    "failed for good": (
        lambda b, name: b.fail(name, queue=OTHER, is_final=True, status="why"), MessageKind.FAILED, b"new;why",
    ),
    "failed at last": (
        lambda b, name: (
            b.fail(name, queue=OTHER), b.take(queue=OTHER), b.fail(name, queue=OTHER, status="why"),
        ), MessageKind.FAILED, b"new;why",
    ),
    "failed as cancelled": (
        lambda b, name: b.fail(name, queue=OTHER, is_final=True, is_cancelled=True), MessageKind.CANCELLED, b"new;",
    ),
    "expired at last": (
        lambda b, name: (b.fail(name, queue=OTHER), b.take(queue=OTHER), expire(b)), MessageKind.FAILED, b"new;",
    ),
    "cancelled": (
        lambda b, name: (give_back(b, name), b.cancel(name, queue=OTHER, status="x")), MessageKind.CANCELLED, b"new;x",
    ),
    "asked to stop, and failed": (
        lambda b, name: (b.cancel(name, queue=OTHER), b.fail(name, queue=OTHER)), MessageKind.CANCELLED, b"new;",
    ),
    "asked to stop, and given back": (
        lambda b, name: (b.cancel(name, queue=OTHER), give_back(b, name)), MessageKind.CANCELLED, b"new;",
    ),
    "asked to stop, and released": (
        lambda b, name: (b.cancel(name, queue=OTHER), b.release_claims(OTHER, "worker")),
        MessageKind.CANCELLED, b"new;",
    ),
    "asked to stop, and expired": (
        lambda b, name: (b.cancel(name, queue=OTHER), expire(b)), MessageKind.CANCELLED, b"new;",
    ),
    "asked to stop, but succeeded": (
        lambda b, name: (b.cancel(name, queue=OTHER), b.ack(name, queue=OTHER, result=b"1")),
        MessageKind.SUCCEEDED, b"1",
    ),
    "deleted while it ran": (lambda b, _: b.delete(IN_PROGRESS, queue=OTHER), MessageKind.DELETED, b"new;"),
    "deleted by name while it ran": (
        lambda b, name: delete_these(b, name, state=IN_PROGRESS), MessageKind.DELETED, b"new;",
    ),
    "deleted while it waited": (
        lambda b, name: (give_back(b, name), b.delete(queue=OTHER)),
        MessageKind.DELETED, b"new;",
    ),
    "deleted by name while it waited": (
        lambda b, name: (give_back(b, name), delete_these(b, name)),
        MessageKind.DELETED, b"new;",
    ),
    "deleted with its queue": (
        lambda b, _: (b.delete_queue(OTHER), b.collect_finished(10**9, 10**9, 100)), MessageKind.DELETED, b"new;",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("end", "kind", "payload"), ENDS.values(), ids=ENDS)
def test_the_parent_is_told_of_each_end_and_wakes(backend, woken, end, kind, payload):
    parent, claim = running_parent(backend, lease_ms=10**9)
    child = started_child(backend, parent, 7, status="new;", attempts=2)
    backend.sleep(parent, ("resize", 1), claim=claim)
    assert backend.take() == []
    end(backend, child)
    assert backend.read(parent, "resize") == [ReceivedMessage(1, "7", payload, kind)]
    assert backend.take_names() == [parent]
    woken.wait_for((QUEUE, 1))


NO_ENDS = {
    "failed, to be retried": lambda b, name: b.fail(name, queue=OTHER),
    "given back": give_back,
    "released": lambda b, _: b.release_claims(OTHER, "worker"),
    "expired, to be retried": lambda b, _: expire(b),
    "asked to stop": lambda b, name: b.cancel(name, queue=OTHER),
    "renewed": lambda b, name: b.checkpoint(name, queue=OTHER, body=b"new"),
}


@pytest.mark.parametrize("way", NO_ENDS.values(), ids=NO_ENDS)
def test_nothing_is_told_before_the_end(backend, way):
    parent, claim = running_parent(backend, lease_ms=10**9)
    child = started_child(backend, parent, attempts=2)
    backend.sleep(parent, ("resize", 1), claim=claim)
    way(backend, child)
    assert told(backend, parent) == {}
    assert backend.take() == []


def test_a_stale_ack_tells_nothing(backend):
    parent, _ = running_parent(backend, lease_ms=10**9)
    child = started_child(backend, parent)
    claim = backend.claim().descriptor
    backend.ack(child, queue=OTHER, claim=claim, result=b"1")
    backend.fail(child, queue=OTHER, claim=claim, is_final=True)
    assert told(backend, parent) == {}


@pytest.mark.parametrize("text", ["x", "é", "🚀"])
def test_of_a_long_status_the_end_is_told(backend, text):
    parent, _ = running_parent(backend)
    child = started_child(backend, parent, status="a" * 900 + text * 4000)
    backend.fail(child, queue=OTHER, is_final=True, status="why")
    assert told(backend, parent) == {0: (MessageKind.FAILED, (text * 3997 + "why").encode())}


# Once


def test_what_becomes_of_a_child_after_its_end_is_not_told(backend):
    parent, claim = running_parent(backend, lease_ms=10**9)
    first, second = (started_child(backend, parent, at) for at in range(2))
    backend.ack(first, queue=OTHER, result=b"1")
    backend.fail(second, queue=OTHER, is_final=True)
    backend.sleep(parent, ("resize", 3), claim=claim)
    before = told(backend, parent)
    backend.clock.advance(10)
    assert backend.delete(SUCCEEDED, queue=OTHER) == 1
    assert [tuple(one) for one in backend.collect_finished(1, 1, 10)] == [(OTHER, 0, 1)]
    assert told(backend, parent) == before
    assert backend.take() == []


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("is_success", [True, False])
def test_an_ack_that_is_sent_again_tells_nothing_again(backend, is_success, beside):
    """Meanwhile, the parent has dropped the messages."""
    parent, claim = running_parent(backend, lease_ms=10**9)
    first, second = backend.put(*[child_of(parent, at) for at in range(2)], queue=OTHER)
    taken = backend.claim()
    assert len(backend.dequeue_jobs(OTHER, 2, taken).jobs) == 2
    ack = ack_of(first, claim=taken.descriptor, is_final=True, result=b"1" if is_success else None)
    acks = ([ack], []) if is_success else ([], [ack])
    assert backend.ack_dequeued_jobs(OTHER, *acks).changed == 1
    assert told(backend, parent).keys() == {0}
    backend.checkpoint(parent, claim=claim, drops=["resize"])
    backend.clock.advance(1)
    if beside:
        acks = ([*acks[0], ack_of(second, claim=taken.descriptor)], acks[1])
    assert backend.ack_dequeued_jobs(OTHER, *acks).changed == beside
    assert told(backend, parent).keys() == ({1} if beside else set())


def test_an_ack_that_is_sent_again_in_the_same_millisecond_tells_nothing_again(backend):
    parent, _ = running_parent(backend)
    first, second = backend.put(*[child_of(parent, at) for at in range(2)], queue=OTHER)
    backend.take(queue=OTHER)
    backend.ack(first, queue=OTHER, result=b"1")
    assert backend.ack(first, second, queue=OTHER, result=b"2").changed == 1
    assert backend.ack(first, queue=OTHER, result=b"3").changed == 0
    assert [(one.id, one.payload) for one in backend.read(parent, "resize")] == [("0", b"1"), ("1", b"2")]


def test_a_child_that_ended_when_it_was_given_back_tells_nothing_again(backend):
    parent, claim = running_parent(backend, lease_ms=10**9)
    child = started_child(backend, parent)
    backend.cancel(child, queue=OTHER)
    give_back(backend, child)
    assert told(backend, parent).keys() == {0}
    backend.checkpoint(parent, claim=claim, drops=["resize"])
    backend.clock.advance(1)
    give_back(backend, child)
    assert told(backend, parent) == {}


def test_a_child_that_is_retried_by_hand_tells_nothing_again(backend):
    parent, _ = running_parent(backend, lease_ms=10**9)
    child = started_child(backend, parent)
    backend.fail(child, queue=OTHER, is_final=True, status="why")
    backend.retry(queue=OTHER)
    assert backend.take_names(queue=OTHER) == [child]
    backend.ack(child, queue=OTHER, result=b"1")
    assert told(backend, parent) == {0: (MessageKind.FAILED, b"why")}
    assert backend.send(parent, "resize", "1")
    assert [one.number for one in backend.read(parent, "resize")] == [1, 2]


def test_a_message_that_was_sent_with_the_id_of_a_child_stands(backend):
    parent, _ = running_parent(backend)
    child = started_child(backend, parent)
    backend.send(parent, "resize", "0", b"said already")
    backend.ack(child, queue=OTHER)
    assert told(backend, parent) == {0: (MessageKind.EVENT, b"said already")}

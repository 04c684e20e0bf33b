"""A parent that sleeps until its children have ended misses none, whichever comes first."""

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import MessageKind, MessageWait
from pinlater.protocol.messages import FAILED
from tests.support.bench import FAR_MS, QUEUE, ack_of, checkpoint_of
from tests.support.families import OTHER, child_of, running_parent, started_child, told

pytestmark = pytest.mark.usefixtures("other_queue")


def test_children_that_end_before_the_parent_sleeps(backend):
    parent, claim = running_parent(backend)
    children = backend.put(*[child_of(parent, at) for at in range(3)], queue=OTHER)
    backend.take(queue=OTHER)
    backend.ack(*children, queue=OTHER)
    settled = backend.sleep(parent, ("resize", 3), claim=claim)
    assert settled.due_ms == backend.clock.now_ms
    assert backend.take_names() == [parent]


def test_children_that_end_before_and_after(backend, woken):
    parent, claim = running_parent(backend)
    children = backend.put(*[child_of(parent, at) for at in range(3)], queue=OTHER)
    backend.take(queue=OTHER)
    backend.ack(children[1], queue=OTHER)
    backend.sleep(parent, ("resize", 3), claim=claim)
    backend.ack(children[0], queue=OTHER)
    assert backend.take() == []
    backend.ack(children[2], queue=OTHER)
    woken.wait_for((QUEUE, 1))
    assert backend.take_names() == [parent]
    assert told(backend, parent).keys() == {0, 1, 2}


def test_the_last_child_ends_at_the_moment_when_the_parent_falls_asleep(backend):
    for at in range(5):
        parent, claim = running_parent(backend)
        child = started_child(backend, parent)
        waits = [MessageWait("resize", 1)]
        item = checkpoint_of(parent, claim=claim, move_to_pending=True, run_after_ms=FAR_MS, waits_for=waits)
        calls = [
            lambda item=item: backend.backend.checkpoint_jobs(QUEUE, [item]),
            lambda name=child: backend.backend.ack_dequeued_jobs(OTHER, [ack_of(name)], []),
        ]
        settled = backend.together(*(calls if at % 2 else calls[::-1]))
        assert [one.changed for one in settled] == [1, 1]
        assert backend.take_names() == [parent]


def test_those_that_had_ended_are_not_told_of_again_when_their_queue_is_deleted(backend):
    """The parent may run anew by then, and wait for others of the same name."""
    parent, claim = running_parent(backend)
    done, failed, _ = (started_child(backend, parent, position, attempts=1) for position in range(3))
    backend.ack(done, queue=OTHER)
    backend.fail(failed, queue=OTHER)
    assert told(backend, parent).keys() == {0, 1}
    assert backend.checkpoint(parent, claim=claim, drops=("resize",)).changed == 1
    backend.delete_queue(OTHER)
    backend.collect_finished(10**9, 10**9, 100)
    assert {one.id: one.kind for one in backend.read(parent, "resize")} == {"2": MessageKind.DELETED}


@pytest.mark.parametrize("is_cancelled", [True, False])
@pytest.mark.parametrize("are_cancelled", [True, False])
def test_a_parent_that_is_retried_by_hand_knows_which_children_have_ended_meanwhile(
    backend, is_cancelled, are_cancelled
):
    parent, claim = running_parent(backend)
    children = [started_child(backend, parent, position) for position in range(3)]
    backend.sleep(parent, ("resize", 3), claim=claim)
    backend.ack(children[0], queue=OTHER)
    if is_cancelled:
        backend.cancel(parent)
    else:
        backend.schedule_jobs(QUEUE, [JobDescriptor.parse(parent)], None)
        backend.take()
        backend.fail(parent, is_final=True)
    assert backend.state(parent) == FAILED
    if are_cancelled:
        backend.cancel(*children[1:], queue=OTHER)
        backend.fail(*children[1:], queue=OTHER)
    else:
        backend.ack(*children[1:], queue=OTHER)
    assert not backend.send(parent)
    assert backend.retry_these_jobs(QUEUE, [JobDescriptor.parse(parent)], 2, None) == 1
    assert backend.take_names() == [parent]
    assert {*told(backend, parent)} == {0, 1, 2}
    backend.sleep(parent, ("resize", 3))
    assert backend.take_names() == [parent]

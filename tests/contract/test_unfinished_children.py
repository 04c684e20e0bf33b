"""Which children of a cancelled parent are still to be cancelled."""

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import FAILED
from tests.support.bench import FAR_MS, QUEUE
from tests.support.families import OTHER, child_of, delete_these, expire, running_parent, unfinished

pytestmark = pytest.mark.usefixtures("other_queue")


def test_children_that_run_or_wait_are_found_in_any_queue(backend):
    parent, _ = running_parent(backend)
    other, _ = running_parent(backend)
    (here,) = backend.put(child_of(parent, 0, run_after_ms=FAR_MS, priority=2))
    runs, done, failed, waits = backend.put(*[child_of(parent, at) for at in range(4)], queue=OTHER)
    assert backend.take_names(3, queue=OTHER) == [runs, done, failed]
    (of_other,) = backend.put(child_of(other), queue=OTHER)
    backend.ack(done, queue=OTHER)
    backend.fail(failed, queue=OTHER, is_final=True)
    assert unfinished(backend, parent) == sorted([here, runs, waits])
    assert unfinished(backend, other) == [of_other]
    assert unfinished(backend, parent, other) == sorted([here, runs, waits, of_other])
    assert unfinished(backend, waits) == unfinished(backend) == []
    assert len(unfinished(backend, parent, other, limit=2)) == 2


def test_children_that_are_cancelled_or_asked_to_stop_are_not(backend):
    parent, _ = running_parent(backend)
    runs, waits = backend.put(*[child_of(parent, at) for at in range(2)], queue=OTHER)
    backend.take(1, queue=OTHER)
    backend.cancel(runs, waits, queue=OTHER)
    assert unfinished(backend, parent) == []
    backend.retry(queue=OTHER)
    assert unfinished(backend, parent) == [waits]


def test_children_of_a_parent_that_has_ended_are_found(backend):
    parent, _ = running_parent(backend)
    (child,) = backend.put(child_of(parent), queue=OTHER)
    backend.cancel(parent)
    backend.fail(parent)
    assert unfinished(backend, parent) == [child]


def names_of(jobs):
    return sorted(map(str, jobs))


def finish_cancellation(backend, *names):
    backend.finish_cancellation(OTHER, [*map(JobDescriptor.parse, names)])


ENDS_OF_CANCELLED = {
    "waits": lambda _, __: None,
    "runs": lambda b, name: b.take(queue=OTHER),
    "ended meanwhile": lambda b, name: (b.take(queue=OTHER), b.cancel(name, queue=OTHER), b.fail(name, queue=OTHER)),
    "expired meanwhile": lambda b, name: (b.take(queue=OTHER), b.cancel(name, queue=OTHER), expire(b)),
}


@pytest.mark.parametrize("way", ENDS_OF_CANCELLED.values(), ids=ENDS_OF_CANCELLED)
def test_one_with_children_stays_until_these_are_cancelled(backend, way):
    root, _ = running_parent(backend, lease_ms=10**9)
    child, leaf = backend.put(child_of(root), child_of(root, 1, run_after_ms=FAR_MS), queue=OTHER)
    (grandchild,) = backend.put(child_of(child, run_after_ms=FAR_MS), queue=QUEUE)
    way(backend, child)
    for _ in range(2):
        cancelled = backend.cancel(child, leaf, queue=OTHER)
        assert names_of(cancelled.parents) == [child]
        assert unfinished(backend, root) == [child]
        assert unfinished(backend, child) == [grandchild]
    backend.crash()
    assert unfinished(backend, root) == [child]
    backend.cancel(grandchild)
    finish_cancellation(backend, child, leaf)
    assert unfinished(backend, root) == unfinished(backend, child) == []
    finish_cancellation(backend, child)
    assert backend.look(child).is_cancelled


def test_what_becomes_of_a_cancelled_one_with_children_takes_it_off(backend):
    root, _ = running_parent(backend, lease_ms=10**9)
    done, retried, deleted, collected = names = backend.put(*[child_of(root, at) for at in range(4)], queue=OTHER)
    backend.put(*[child_of(name, run_after_ms=FAR_MS) for name in names])
    assert backend.take_names(1, queue=OTHER) == [done]
    backend.cancel(*names, queue=OTHER)
    assert unfinished(backend, root) == sorted(names)
    backend.ack(done, queue=OTHER)
    assert unfinished(backend, root) == sorted([retried, deleted, collected])
    assert backend.retry_these_jobs(OTHER, [JobDescriptor.parse(retried)], 1, None) == 1
    backend.take(queue=OTHER)
    backend.ack(retried, queue=OTHER)
    assert unfinished(backend, root) == sorted([deleted, collected])
    assert delete_these(backend, deleted, state=FAILED) == 1
    assert unfinished(backend, root) == [collected]
    backend.clock.advance(1000)
    backend.collect_finished(10**9, 500, 10)
    assert backend.look(collected) is None
    assert unfinished(backend, root) == []


def test_a_deleted_queue_takes_its_cancelled_ones_with_children_off(backend):
    root, _ = running_parent(backend, lease_ms=10**9)
    (child,) = backend.put(child_of(root), queue=OTHER)
    backend.put(child_of(child, run_after_ms=FAR_MS))
    backend.cancel(child, queue=OTHER)
    assert unfinished(backend, root) == [child]
    backend.delete_queue(OTHER)
    assert unfinished(backend, root) == []
    backend.collect_finished(10**9, 10**9, 100)
    assert unfinished(backend, root) == []


def test_one_that_was_not_cancelled_is_not_taken_off(backend):
    root, _ = running_parent(backend)
    (child,) = backend.put(child_of(root), queue=OTHER)
    finish_cancellation(backend, child)
    assert unfinished(backend, root) == [child]
    assert not backend.look(child).is_cancelled

"""Children: jobs with a parent, which are else jobs like others; and which parents a job may have."""

import pytest

from pinlater.errors import EnqueueRejected
from pinlater.model.keys import JobKey
from pinlater.model.messages import Parent
from pinlater.protocol.messages import IN_PROGRESS, SUCCEEDED
from tests.contract.test_idempotency import again, new_key
from tests.support.bench import FAR_MS, QUEUE, new_job
from tests.support.families import OTHER, child_of, running_parent, started_child, told, unfinished

pytestmark = pytest.mark.usefixtures("other_queue")


def test_a_child_shows_its_parent(backend):
    parent, _ = running_parent(backend)
    name = "🚀 " * 66 + "é"
    (child,) = backend.put(child_of(parent, 2**31 - 1, name=name, priority=2), queue=OTHER)
    assert backend.look(child).parent == Parent(parent, name, 2**31 - 1)
    assert [job.parent for job in backend.scan(queue=OTHER).jobs] == [Parent(parent, name, 2**31 - 1)]
    assert backend.look(parent).parent is None
    backend.crash()
    assert backend.look(child).parent == Parent(parent, name, 2**31 - 1)


def test_each_job_of_a_call_has_a_parent_of_its_own(backend):
    (first, _), (second, _) = running_parent(backend), running_parent(backend)
    (holder,) = backend.put(new_job(unique_key="taken"), queue=OTHER)
    parents = [Parent(first, "resize", position) for position in (0, 1, 2, 7, 8)]
    parents += [None, Parent(first, "crop", 9), Parent(second, "crop", 10), Parent(second, "crop", 10)]
    jobs = [new_job(parent=parent) for parent in parents]
    jobs[1] = new_job(parent=parents[1], unique_key="taken")
    names = backend.put(*jobs, queue=OTHER)
    assert names[1] == holder
    assert [backend.look(name).parent for name in names] == [parents[0], None, *parents[2:]]
    assert unfinished(backend, first) == sorted([names[0], *names[2:5], names[6]])
    assert unfinished(backend, second) == sorted(names[7:])


def test_a_child_is_else_a_job_like_others(backend):
    parent, _ = running_parent(backend)
    names = backend.put(
        child_of(parent, 0, body=b"hello", priority=2, attempts=3, status="new"),
        new_job(b"no child"),
        child_of(parent, 1, run_after_ms=FAR_MS),
        queue=OTHER,
    )
    taken = backend.take(queue=OTHER)
    assert [job.descriptor for job in taken] == [names[1], names[0]]
    assert (taken[1].body, taken[1].attempts_allowed) == (b"hello", 3)
    backend.ack(names[1], queue=OTHER)
    assert told(backend, parent) == {}


def test_children_may_have_keys(backend):
    parent, _ = running_parent(backend)
    first, second = backend.put(*[child_of(parent, at, key=JobKey("a", 1)) for at in range(2)], queue=OTHER)
    assert backend.take_names(queue=OTHER) == [first]
    backend.ack(first, queue=OTHER)
    assert backend.take_names(queue=OTHER) == [second]
    backend.ack(second, queue=OTHER)
    assert told(backend, parent).keys() == {0, 1}


def test_a_parent_that_is_gone_or_has_finished_is_told_nothing(backend):
    finished, gone = running_parent(backend)[0], running_parent(backend)[0]
    children = [started_child(backend, parent) for parent in (finished, gone)]
    backend.ack(finished)
    backend.delete(IN_PROGRESS)
    for end in (lambda: backend.ack(children[0], queue=OTHER), lambda: backend.delete(IN_PROGRESS, queue=OTHER)):
        assert end()
    assert told(backend, finished) == told(backend, gone) == {}
    assert backend.state(children[0]) == SUCCEEDED


def test_a_parent_in_a_deleted_queue(backend):
    parent, _ = running_parent(backend)
    child = started_child(backend, parent)
    backend.delete_queue(QUEUE)
    assert backend.ack(child, queue=OTHER).changed == 1
    backend.collect_finished(10**9, 10**9, 100)
    backend.create_queue(QUEUE)
    assert backend.read(parent, "resize") == []


# Refused


def test_a_job_whose_parent_is_not_there_is_refused_with_its_whole_call(backend):
    parent, _ = running_parent(backend, priority=2)
    number = parent.rpartition(":")[2]
    backend.create_queue("deleted")
    in_deleted = backend.put_one(queue="deleted")
    backend.delete_queue("deleted")
    for wrong in (
        f"{QUEUE}:s1:p1:{number}", f"{OTHER}:s1:p2:{number}", f"{QUEUE}:s1:p2:999999", f"nowhere:s1:p2:{number}",
        in_deleted,
    ):  # fmt: skip
        with pytest.raises(EnqueueRejected):
            backend.put(new_job(), child_of(parent, 0), child_of(wrong, 1), queue=OTHER)
    assert backend.counts(OTHER) == (0, 0, 0, 0)
    assert told(backend, parent) == {}


ENDED = {
    "succeeded": lambda backend, name: backend.ack(name),
    "failed": lambda backend, name: backend.fail(name, is_final=True),
    "asked to stop": lambda backend, name: backend.cancel(name),
    "cancelled": lambda backend, name: (backend.checkpoint(name, move_to_pending=True), backend.cancel(name)),
    "deleted": lambda backend, _: backend.delete(IN_PROGRESS),
}


@pytest.mark.parametrize("way", ENDED.values(), ids=ENDED)
def test_a_job_whose_parent_is_to_run_no_more_is_refused(backend, way):
    parent, _ = running_parent(backend)
    before = new_key()
    assert len(backend.enqueue_jobs(OTHER, [child_of(parent)], once=before)) == 1
    way(backend, parent)
    with pytest.raises(EnqueueRejected):
        backend.put(child_of(parent, 1), new_job(), queue=OTHER)
    with pytest.raises(EnqueueRejected):
        backend.enqueue_jobs(OTHER, [child_of(parent, 1), new_job()], once=new_key())
    assert sum(backend.counts(OTHER)) == 1


@pytest.mark.parametrize("count", [1, 3])
def test_a_call_that_was_carried_out_is_answered_although_the_parent_has_finished(backend, count):
    parent, _ = running_parent(backend)
    key, jobs = new_key(), [child_of(parent, at) for at in range(count)]
    names = backend.enqueue_jobs(OTHER, jobs, once=key)
    assert backend.enqueue_jobs(OTHER, jobs, once=again(key)) == names
    backend.ack(parent)
    assert backend.enqueue_jobs(OTHER, jobs, once=again(key)) == names
    assert sum(backend.counts(OTHER)) == count


def test_the_fault_of_one_call_does_not_touch_those_beside_it(backend):
    parent, _ = running_parent(backend)

    def put(*jobs):
        return lambda: backend.backend.enqueue_jobs(OTHER, jobs)

    refused, *good = backend.together(
        put(child_of(f"{QUEUE}:s1:p1:999999"), new_job()), put(child_of(parent)), put(new_job()), put(new_job())
    )
    assert isinstance(refused, EnqueueRejected)
    assert [len(names) for names in good] == [1, 1, 1]
    assert backend.counts(OTHER) == (3, 0, 0, 0)


@pytest.mark.parametrize("is_asleep", [False, True])
def test_a_parent_that_waits_may_get_children(backend, is_asleep):
    parent = backend.asleep(("resize", 1)) if is_asleep else backend.put_one(run_after_ms=FAR_MS)
    started_child(backend, parent)

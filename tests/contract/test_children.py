"""Children: whatever ends one tells its parent, once; a parent that sleeps until they have ended misses none."""

import itertools

import pytest

from pinlater.errors import EnqueueRejected
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.model.messages import MAX_DROPPED, MessageKind, MessageWait, Parent, ReceivedMessage
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from tests.contract.test_idempotency import again, new_key
from tests.contract.test_import import record
from tests.contract.test_messages import Woken
from tests.support.bench import FAR_MS, LEASE_MS, QUEUE, ack_of, checkpoint_of, new_job

OTHER = "thumbnails"


@pytest.fixture
def backend(backend):
    """A bench with a second queue."""
    backend.create_queue(OTHER)
    return backend


@pytest.fixture
def woken(backend):
    return Woken(backend)


def child_of(parent, position=0, *, name="resize", **options):
    return new_job(parent=Parent(parent, name, position), **options)


def running_parent(backend, **options):
    """Return a job that runs, and its claim."""
    return backend.started(b"parent", attempts=5, **options)


def started_child(backend, parent, position=0, *, lease_ms=LEASE_MS, **options):
    """Enqueue a child in the other queue and claim it; return its descriptor."""
    (child,) = backend.put(child_of(parent, position, **options), queue=OTHER)
    assert backend.take_names(queue=OTHER, lease_ms=lease_ms) == [child]
    return child


def told(backend, parent, name="resize"):
    """Return what the parent was told, by position."""
    found = backend.read(parent, name)
    assert [one.number for one in found] == list(range(1, len(found) + 1))
    return {int(one.id): (one.kind, one.payload) for one in found}


def delete_these(backend, *names, state=PENDING, queue=OTHER):
    return backend.delete_these_jobs(queue, [*map(JobDescriptor.parse, names)], state)


# What a child is


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


# How each end is told


def give_back(backend, name):
    backend.checkpoint(name, queue=OTHER, move_to_pending=True)


def expire(backend):
    backend.clock.advance(LEASE_MS)
    backend.reap()


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


# Races with the parent


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


# Families


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


# Who is left


def unfinished(backend, *parents, limit=100):
    return sorted(map(str, backend.children_to_cancel([*map(JobDescriptor.parse, parents)], limit)))


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

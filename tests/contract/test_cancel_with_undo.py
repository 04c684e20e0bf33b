"""A cancelled job with something to undo ends only when that is done: until then it goes back, marked, like others."""

import msgspec
import pytest

from pinlater.model.body_metadata import OPEN_SAGA, UNDOES_CANCELLED, BodyMetadata, SagaMark, with_metadata
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import failure_of
from pinlater.model.keys import JobKey
from pinlater.model.messages import Parent
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.records import Claim
from tests.contract.test_cancel import GIVEN_BACK, is_cancelled, names_of
from tests.support.bench import FAR_MS, LEASE_MS, QUEUE, new_job
from tests.support.woken import Woken

TO_UNDO = with_metadata(b'{"job":"Trip"}', BodyMetadata(saga=SagaMark(["pay"], given=4)))
UNDOING = with_metadata(
    b'{"job":"Trip"}', BodyMetadata(saga=SagaMark(["pay"], "it was cancelled", is_cancelled=True, undoes=True))
)
UNDONE = with_metadata(b'{"job":"Trip"}', BodyMetadata(saga=SagaMark(why="it was cancelled")))
BOOM = failure_of("Trip", "ValueError: boom")
BACK = {name: way for name, way in GIVEN_BACK.items() if name not in {"failed for good", "given back by its source"}}


def asked(backend, body=TO_UNDO, **options):
    """Return a job that is asked to stop while it runs, and its claim."""
    descriptor, claim = backend.started(body, attempts=5, **options)
    assert names_of(backend.cancel(descriptor).asked) == [descriptor]
    return descriptor, claim


def test_the_mark_that_stores_look_for_is_in_bodies_with_something_to_undo_alone():
    assert OPEN_SAGA in TO_UNDO
    assert OPEN_SAGA not in UNDONE
    assert OPEN_SAGA not in msgspec.json.encode({"note": OPEN_SAGA.decode()})


def test_the_mark_that_stores_look_for_is_in_bodies_of_cancelled_jobs_that_undo_alone():
    mark = SagaMark(["pay"])
    mark.give_up("no money")
    assert UNDOES_CANCELLED not in with_metadata(b'{"job":"Trip"}', BodyMetadata(saga=mark))
    mark.give_up("it was cancelled", is_cancelled=True)
    assert UNDOES_CANCELLED in with_metadata(b'{"job":"Trip"}', BodyMetadata(saga=mark))
    assert UNDOES_CANCELLED not in msgspec.json.encode({"note": UNDOES_CANCELLED.decode()})


@pytest.mark.parametrize("way", BACK.values(), ids=BACK)
def test_whatever_gives_it_back_leaves_it_pending_and_marked(backend, way):
    descriptor, claim = asked(backend, unique_key="once")
    way(backend, descriptor, claim)
    found = backend.look(descriptor)
    assert (found.state, found.is_cancelled, found.unique) == (PENDING, True, "once")
    (again,) = backend.take()
    assert again.descriptor == descriptor, "it is due"
    assert names_of(backend.checkpoint(descriptor).cancelled) == [descriptor], "who holds it now is told"


@pytest.mark.parametrize("way", BACK.values(), ids=BACK)
def test_when_all_is_undone_it_ends_as_ever(backend, way):
    descriptor, claim = asked(backend)
    backend.checkpoint(descriptor, claim=claim, body=UNDONE)
    way(backend, descriptor, claim)
    assert is_cancelled(backend, descriptor)


def test_the_body_that_it_is_given_back_with_decides(backend):
    descriptor, claim = asked(backend, b'{"job":"Trip"}')
    backend.checkpoint(descriptor, claim=claim, body=TO_UNDO, move_to_pending=True, attempts=7)
    found = backend.look(descriptor)
    assert (found.state, found.is_cancelled, found.attempts_remaining) == (PENDING, True, 7)
    backend.take()
    backend.checkpoint(descriptor, body=UNDONE, move_to_pending=True)
    assert is_cancelled(backend, descriptor)


def test_its_last_attempt_is_its_last(backend):
    descriptor, claim = backend.started(TO_UNDO, attempts=1)
    backend.cancel(descriptor)
    backend.fail(descriptor, claim=claim)
    assert is_cancelled(backend, descriptor)


def test_it_can_still_succeed_and_be_given_up(backend):
    (first, first_claim), (second, second_claim) = asked(backend), asked(backend)
    backend.ack(first, claim=first_claim)
    backend.fail(second, claim=second_claim, is_final=True)
    assert (backend.state(first), backend.look(first).is_cancelled) == (SUCCEEDED, False)
    assert is_cancelled(backend, second)


@pytest.mark.parametrize("waits", [(), [("go", 1)]], ids=["sleeping", "waiting"])
def test_one_that_waits_is_woken_and_asked(backend, waits):
    woken = Woken(backend)
    descriptor = backend.asleep(*waits, body=TO_UNDO)
    cancelled = backend.cancel(descriptor, status="not needed;")
    assert (cancelled.ended, names_of(cancelled.asked)) == ((), [descriptor])
    found = backend.look(descriptor)
    assert (found.state, found.is_cancelled, found.status) == (PENDING, True, "not needed;")
    woken.wait_for((QUEUE, 1))
    assert backend.take_names() == [descriptor]
    assert names_of(backend.checkpoint(descriptor).cancelled) == [descriptor]


@pytest.mark.parametrize("waits", [[], [("go", 1)]], ids=["sleeping", "waiting"])
def test_who_gives_it_back_for_later_is_told_that_it_is_due_now(backend, waits):
    descriptor, claim = asked(backend)
    settled = backend.sleep(descriptor, *waits, claim=claim)
    assert backend.look(descriptor).run_after_ms <= backend.clock.now_ms
    assert settled.due_ms is not None
    assert settled.due_ms <= backend.clock.now_ms, "or else no waiting dequeue would be woken for it"


@pytest.mark.parametrize("key", [None, JobKey("a", 1)], ids=["no key", "key"])
def test_one_that_undoes_may_be_given_back_for_later(backend, key):
    """An undo that is retried after a backoff, or steps that do not fit the code, would otherwise be tried at once."""
    descriptor, claim = asked(backend, key=key)
    backend.checkpoint(descriptor, claim=claim, body=UNDOING, move_to_pending=True)
    for body in UNDOING, None:
        assert backend.take_names() == [descriptor]
        due_ms = backend.clock.now_ms + 60_000
        backend.checkpoint(descriptor, body=body, move_to_pending=True, run_after_ms=due_ms)
        found = backend.look(descriptor)
        assert (found.state, found.is_cancelled, found.run_after_ms) == (PENDING, True, due_ms)
        assert backend.take_names() == []
        backend.clock.advance(60_001)
    assert backend.take_names() == [descriptor]
    backend.checkpoint(descriptor, body=UNDONE, move_to_pending=True, run_after_ms=backend.clock.now_ms + 60_000)
    assert is_cancelled(backend, descriptor)


def test_one_that_is_due_keeps_its_place(backend):
    first = backend.put_one(TO_UNDO)
    backend.clock.advance(1000)
    second = backend.put_one()
    backend.clock.advance(1000)
    backend.cancel(first)
    assert backend.take_names() == [first, second]


def test_one_that_waits_for_its_ordered_key_keeps_its_place(backend):
    key = JobKey("a", 1, is_ordered=True)
    names = backend.put(*[new_job(TO_UNDO, key=key, run_after_ms=backend.clock.now_ms + 1000) for _ in range(3)])
    backend.cancel(names[2])
    backend.clock.advance(1000)
    for name in names:
        assert backend.take_names() == [name]
        backend.ack(name)


def test_one_that_is_cancelled_with_another_of_its_key_does_not_come_back(backend):
    """The other one, which has something to undo, is due now, and so comes before this one, which is let through."""
    key, now = JobKey("a", 1), backend.clock.now_ms
    later, to_undo = backend.put(
        new_job(key=key, run_after_ms=now + 1000), new_job(TO_UNDO, key=key, run_after_ms=now + 2000)
    )
    cancelled = backend.cancel(to_undo, later)
    assert (names_of(cancelled.asked), names_of(cancelled.ended)) == ([to_undo], [later])
    assert backend.take_names() == [to_undo]
    backend.ack(to_undo)
    backend.clock.advance(5000)
    assert is_cancelled(backend, later)
    assert backend.take_names() == []


def test_a_second_call_changes_nothing(backend):
    descriptor, claim = asked(backend)
    backend.fail(descriptor, claim=claim, retry_delay_ms=10**6)
    before = backend.look(descriptor)
    assert names_of(backend.cancel(descriptor, status="again").asked) == [descriptor]
    assert backend.look(descriptor) == before
    assert backend.take() == [], "it waits for its next attempt"


def test_over_a_crash(backend):
    descriptor = backend.put_one(TO_UNDO, run_after_ms=FAR_MS)
    backend.cancel(descriptor)
    backend.crash()
    assert backend.look(descriptor).is_cancelled
    assert backend.take_names() == [descriptor]


def test_one_of_a_key(backend):
    key = JobKey("a", 1)
    first, second = backend.put_one(TO_UNDO, key=key), backend.put_one(TO_UNDO, key=key)
    third = backend.put_one(key=key)
    assert names_of(backend.cancel(second).asked) == [second]
    assert backend.take_names() == [first]
    backend.ack(first)
    assert backend.take_names() == [second]
    backend.fail(second, is_final=True)
    assert backend.take_names() == [third]


def test_its_parent_is_told_when_it_ends(backend):
    parent, _ = backend.started()
    (child,) = backend.put(new_job(TO_UNDO, parent=Parent(parent, "trip", 0), run_after_ms=FAR_MS))
    backend.cancel(child)
    assert backend.read(parent, "trip") == []
    assert backend.children_to_cancel([JobDescriptor.parse(parent)], 10) == [], "it is asked already"
    assert backend.take_names() == [child]
    backend.fail(child, is_final=True)
    assert [message.kind for message in backend.read(parent, "trip")] == [3]


def test_one_that_is_retried_by_hand_has_no_mark_any_more(backend):
    descriptor, claim = asked(backend)
    backend.fail(descriptor, claim=claim, is_final=True)
    assert backend.retry(attempts=3) == 1
    assert (backend.state(descriptor), backend.look(descriptor).is_cancelled) == (PENDING, False)
    backend.take()
    assert backend.checkpoint(descriptor).cancelled == ()


@pytest.mark.parametrize("was_running", [False, True])
def test_one_that_is_moved_to_another_queue_takes_its_mark_along(backend, was_running):
    descriptor = asked(backend, unique_key="once")[0] if was_running else backend.asleep(("go", 1), body=TO_UNDO)
    backend.cancel(descriptor)
    backend.create_queue("other")
    (moved,) = backend.import_jobs("other", [backend.look(descriptor)])
    found = backend.look(moved)
    assert (found.state, found.is_cancelled, found.unique) == (PENDING, True, "once" if was_running else None)
    assert backend.take_names(queue="other") == [moved]
    assert names_of(backend.checkpoint(moved, queue="other").cancelled) == [moved]
    backend.checkpoint(moved, queue="other", body=UNDONE, move_to_pending=True)
    assert is_cancelled(backend, moved)


def test_a_cancelled_job_that_has_nothing_to_undo_is_retried_by_its_import(backend):
    descriptor = backend.put_one()
    backend.cancel(descriptor)
    (again,) = backend.import_jobs(QUEUE, [backend.look(descriptor)._replace(state=PENDING, attempts_remaining=1)])
    assert (backend.state(again), backend.look(again).is_cancelled) == (PENDING, False)
    assert backend.take_names() == [again]


@pytest.mark.parametrize("has_failed", [False, True])
@pytest.mark.parametrize("way", BACK.values(), ids=BACK)
def test_it_is_in_no_failure_group(backend, way, has_failed):
    descriptor, claim = backend.started(TO_UNDO, attempts=5)
    if has_failed:
        backend.fail(descriptor, claim=claim, failure=BOOM)
        claim = backend.claim().descriptor
        backend.dequeue_jobs(QUEUE, 1, Claim(claim, LEASE_MS))
    backend.cancel(descriptor)
    for end in (lambda: way(backend, descriptor, claim), lambda: backend.fail(*backend.take_names(), failure=BOOM)):
        end()
        found = backend.look(descriptor)
        assert (found.state, found.failure_group, backend.failure_groups([], 9)) == (PENDING, None, [])
        assert backend.count(is_retrying=True) == 0


def test_it_leaves_its_failure_group_when_it_is_cancelled(backend):
    descriptor, claim = backend.started(TO_UNDO, attempts=5)
    backend.fail(descriptor, claim=claim, failure=BOOM, retry_delay_ms=10**6)
    backend.cancel(descriptor)
    found = backend.look(descriptor)
    assert (found.state, found.failure_group, backend.failure_groups([], 9)) == (PENDING, None, [])
    assert backend.scan(is_retrying=True).jobs == []


def test_the_end_of_its_lease_is_no_end_of_it(backend):
    descriptor, _ = asked(backend)
    backend.clock.advance(LEASE_MS)
    assert backend.reap() == [(QUEUE, 1, 0)]
    assert backend.counts() == (1, 0, 0, 0)
    assert backend.state(descriptor) == PENDING
    assert backend.take_names() == [descriptor]
    assert (backend.count(IN_PROGRESS), backend.count(FAILED)) == (1, 0)

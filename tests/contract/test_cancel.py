"""Cancel: what waits is FAILED at once; what runs is asked to stop, and never becomes PENDING again."""

import pytest

from pinlater.errors import QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import WAITS_FOR_KEY_MS, JobKey
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.records import MAX_STATUS_CHARACTERS, Cancelled
from tests.contract.test_import import record
from tests.support.bench import FAR_MS, LEASE_MS, QUEUE, ack_of, checkpoint_of, new_job

HOUR_MS = 3_600_000


def names_of(jobs):
    return [str(job) for job in jobs]


def asked(backend, **options):
    """Return a job that is asked to stop, and its claim."""
    descriptor, claim = backend.started(**options)
    assert names_of(backend.cancel(descriptor).asked) == [descriptor]
    return descriptor, claim


def is_cancelled(backend, descriptor):
    """Return whether a job is FAILED and marked."""
    found = backend.look(descriptor)
    return found.state == FAILED and found.is_cancelled


# What waits


@pytest.mark.parametrize("run_after_ms", [None, FAR_MS])
def test_a_job_that_waits_is_failed_and_marked(backend, run_after_ms):
    descriptor = backend.put_one(b"hello", attempts=4, status="why;", run_after_ms=run_after_ms)
    before = backend.look(descriptor)
    assert not before.is_cancelled
    now = backend.clock.advance(10)
    cancelled = backend.cancel(descriptor, status="not needed")
    assert (names_of(cancelled.ended), cancelled.asked) == ([descriptor], ())
    after = backend.look(descriptor)
    assert after == before._replace(
        state=FAILED,
        status="why;not needed",
        is_cancelled=True,
        run_after_ms=min(before.run_after_ms, now),
        updated_at_ms=now,
    )
    assert backend.take() == []
    assert backend.counts() == (0, 0, 0, 1)
    assert [job.is_cancelled for job in backend.scan(FAILED).jobs] == [True]


@pytest.mark.parametrize("key", [None, JobKey("a", 1)])
def test_a_job_for_later_that_is_cancelled_is_found_among_those_that_failed(backend, key):
    asleep = backend.asleep(("go", 1), key=key)
    later = backend.put(*[new_job(run_after_ms=backend.clock.now_ms + HOUR_MS, key=key)] * 2)
    backend.cancel(asleep, *later)
    assert (backend.count(FAILED, is_future=False), backend.count(FAILED, is_future=True)) == (3, 0)
    assert {job.descriptor for job in backend.scan(FAILED, is_future=False).jobs} == {asleep, *later}


def test_a_job_that_waits_for_its_next_attempt(backend):
    descriptor, _ = backend.started(attempts=3)
    backend.fail(descriptor, retry_delay_ms=HOUR_MS)
    backend.cancel(descriptor)
    assert is_cancelled(backend, descriptor)
    backend.clock.advance(HOUR_MS)
    assert backend.take() == []


def test_it_counts_as_finished_from_now_on(backend):
    descriptor = backend.put_one()
    backend.clock.advance(1000)
    backend.cancel(descriptor)
    assert backend.collect_finished(500, 500, 10) == []
    backend.clock.advance(501)
    assert [tuple(one) for one in backend.collect_finished(500, 500, 10)] == [(QUEUE, 0, 1)]
    assert backend.look(descriptor) is None


def test_its_unique_key_is_free(backend):
    descriptor = backend.put_one(unique_key="once")
    backend.cancel(descriptor)
    assert backend.look(descriptor).unique is None
    successor = backend.put_one(unique_key="once")
    assert successor != descriptor
    assert backend.retry() == 1
    assert sorted(backend.take_names()) == sorted([descriptor, successor])


# What runs


def test_a_job_that_runs_is_asked_to_stop_and_runs_on(backend):
    descriptor, claim = backend.started(b"hello", status="why;")
    cancelled = backend.cancel(descriptor, status="please stop")
    assert (cancelled.ended, names_of(cancelled.asked)) == ((), [descriptor])
    found = backend.look(descriptor)
    assert (found.state, found.is_cancelled, found.claim) == (IN_PROGRESS, True, claim)
    assert (found.body, found.status) == (b"hello", "why;please stop")
    assert [job.is_cancelled for job in backend.scan(IN_PROGRESS).jobs] == [True]
    assert backend.reap() == []


@pytest.mark.parametrize("is_grouped", [False, True])
def test_it_can_still_succeed(backend, is_grouped):
    descriptor, claim = asked(backend)
    if is_grouped:
        other, other_claim = backend.started()
        backend.together(
            lambda: backend.backend.ack_dequeued_jobs(QUEUE, [_ack(descriptor, claim)], []),
            lambda: backend.backend.ack_dequeued_jobs(QUEUE, [_ack(other, other_claim)], []),
        )
    else:
        backend.ack(descriptor, claim=claim, result=b"done")
    found = backend.look(descriptor, include_result=True)
    assert (found.state, found.is_cancelled, found.result) == (SUCCEEDED, False, b"done")


def _ack(descriptor, claim):
    return ack_of(descriptor, claim=claim, result=b"done")


GIVEN_BACK = {
    "failed": lambda backend, name, claim: backend.fail(name, claim=claim),
    "failed for good": lambda backend, name, claim: backend.fail(name, claim=claim, is_final=True),
    "given back by its claim": lambda backend, name, claim: backend.checkpoint(name, claim=claim, move_to_pending=True),
    "given back by its source": lambda backend, name, _: backend.checkpoint(name, move_to_pending=True, body=b"new"),
    "gone to sleep": lambda backend, name, claim: backend.sleep(name, ("go", 1), claim=claim),
    "released": lambda backend, _, __: backend.release_claims(QUEUE, "worker"),
    "expired": lambda backend, _, __: (backend.clock.advance(LEASE_MS), backend.reap()),
}
LEFT = {"failed": 0, "failed for good": 0, "expired": 4}
"""How many of five attempts are left; all are after the other ways."""


@pytest.mark.parametrize("way", GIVEN_BACK)
def test_whatever_would_make_it_pending_makes_it_failed(backend, way):
    descriptor, claim = asked(backend, attempts=5, unique_key="once", key=JobKey("a", 1))
    follower = backend.put_one(key=JobKey("a", 1))
    assert backend.take() == []
    GIVEN_BACK[way](backend, descriptor, claim)
    found = backend.look(descriptor)
    assert found.attempts_remaining == LEFT.get(way, 5)
    assert (found.state, found.is_cancelled, found.unique, found.waits_for) == (FAILED, True, None, ())
    assert found.run_after_ms < WAITS_FOR_KEY_MS
    assert not backend.send(descriptor)
    assert backend.take_names() == [follower]
    backend.clock.advance(10**12)
    assert descriptor not in backend.take_names()


def test_the_end_of_an_expired_lease_is_counted_as_a_failure(backend):
    asked(backend, attempts=5)
    backend.clock.advance(LEASE_MS)
    assert backend.reap() == [(QUEUE, 0, 1)]


def test_a_job_that_fails_since_it_was_cancelled_is_marked(backend):
    descriptor, claim = backend.started(attempts=5)
    settled = backend.fail(descriptor, claim=claim, is_final=True, is_cancelled=True, status="stopped")
    assert (settled.changed, settled.failed) == (1, 1)
    assert is_cancelled(backend, descriptor)
    assert backend.look(descriptor).status == "stopped"


def test_a_failure_is_not_marked(backend):
    assert not backend.look(backend.finished(state=FAILED)).is_cancelled


# What the holder hears


@pytest.mark.parametrize("changes", [{}, {"body": b"new"}, {"attempts": 4}], ids=["renewed", "saved", "changed"])
def test_the_holder_is_told_with_its_checkpoint_which_is_carried_out(backend, changes):
    descriptor, claim = asked(backend)
    other, other_claim = backend.started()
    backend.clock.advance(LEASE_MS - 1)
    settled = backend.checkpoint_jobs(
        QUEUE, [checkpoint_of(descriptor, claim=claim, **changes), checkpoint_of(other, claim=other_claim, **changes)]
    )
    assert (settled.changed, settled.stale, settled.lost) == (2, 0, ())
    assert names_of(settled.cancelled) == [descriptor]
    backend.clock.advance(LEASE_MS - 1)
    assert backend.reap() == [], "the lease is new"
    assert backend.look(descriptor).body == changes.get("body", b"body")


def test_it_is_told_by_source_too(backend):
    descriptor, _ = asked(backend)
    assert names_of(backend.checkpoint(descriptor, source="worker").cancelled) == [descriptor]


@pytest.mark.parametrize("changes", [{}, {"body": b"new"}], ids=["renewed", "saved"])
def test_who_does_not_hold_it_has_lost_it(backend, changes):
    descriptor, _ = asked(backend)
    settled = backend.checkpoint(descriptor, claim=backend.claim().descriptor, **changes)
    assert (names_of(settled.lost), settled.cancelled) == ([descriptor], ())


def test_who_gives_it_back_is_told_nothing(backend):
    descriptor, claim = asked(backend)
    settled = backend.checkpoint(descriptor, claim=claim, move_to_pending=True)
    assert (settled.changed, settled.stale, settled.cancelled) == (1, 0, ())


def test_it_stays_asked_over_a_crash(backend):
    descriptor, claim = asked(backend, attempts=5)
    backend.crash()
    assert names_of(backend.checkpoint(descriptor, claim=claim).cancelled) == [descriptor]
    backend.crash()
    backend.release_claims(QUEUE, "worker")
    assert is_cancelled(backend, descriptor)


# Again, and what cannot be cancelled


def test_a_second_call_returns_the_same_and_adds_no_status(backend):
    waiting = backend.put_one(run_after_ms=FAR_MS)
    running, _ = backend.started()
    first = backend.cancel(waiting, running, status="stop;")
    assert backend.cancel(waiting, running, status="stop;") == first._replace(newly_ended=0)
    assert (names_of(first.ended), names_of(first.asked)) == ([waiting], [running])
    assert [backend.look(name).status for name in (waiting, running)] == ["stop;", "stop;"]


def test_jobs_that_an_earlier_call_has_cancelled_are_not_newly_ended(backend):
    running, _ = backend.started()
    first, second = backend.put(new_job(), new_job())
    calls = [backend.cancel(*names) for names in ([running, first], [running, first, second], [first, second])]
    assert [len(cancelled.ended) for cancelled in calls] == [1, 2, 2]
    assert [cancelled.newly_ended for cancelled in calls] == [1, 1, 0]


def test_a_job_that_is_named_twice_is_cancelled_once(backend):
    descriptor = backend.put_one()
    cancelled = backend.cancel(descriptor, descriptor, status="x")
    assert names_of(cancelled.ended) == [descriptor]
    assert backend.look(descriptor).status == "x"


@pytest.mark.parametrize("state", [SUCCEEDED, FAILED])
def test_a_finished_job_is_left_alone(backend, state):
    descriptor = backend.finished(state=state)
    before = backend.look(descriptor)
    backend.clock.advance(10)
    assert backend.cancel(descriptor, status="too late") == Cancelled((), ())
    assert backend.look(descriptor) == before


def test_only_the_jobs_that_are_named(backend):
    backend.create_queue("other")
    here, there, low = backend.put_one(), backend.put_one(queue="other"), backend.put_one(priority=2)
    gone = backend.put_one(run_after_ms=FAR_MS - 1)
    backend.delete_these_jobs(QUEUE, [JobDescriptor.parse(gone)], PENDING)
    elsewhere = there.replace("other:", f"{QUEUE}:")
    wrong_priority = low.replace(":p2:", ":p3:")
    cancelled = backend.cancel(gone, wrong_priority, f"{QUEUE}:s1:p1:999999")
    assert cancelled == Cancelled((), ())
    assert sorted(backend.take_names()) == sorted([here, low])
    assert backend.take_names(queue="other") == [there]
    assert elsewhere == here or backend.look(elsewhere) is None


def test_many_at_once(backend):
    names = backend.put(*[new_job() for _ in range(700)])
    running = backend.take_names(200)
    cancelled = backend.cancel(*names)
    assert sorted(names_of(cancelled.asked)) == sorted(running)
    assert sorted((*names_of(cancelled.ended), *running)) == sorted(names)
    assert backend.cancel() == Cancelled((), ())


def test_of_no_queue(backend):
    with pytest.raises(QueueNotFound):
        backend.cancel("nowhere:s1:p1:1", queue="nowhere")


def test_the_status_is_cut(backend):
    waiting, (running, _) = backend.put_one(status="a" * 4000, run_after_ms=FAR_MS), backend.started(status="a" * 4000)
    backend.cancel(waiting, running, status="b" * 4000)
    whole = "a" * 4000 + "b" * (MAX_STATUS_CHARACTERS - 4000)
    assert [backend.look(name).status for name in (waiting, running)] == [whole, whole]


# Keys


def test_a_cancelled_job_of_a_key_lets_the_next_one_through(backend):
    first, second, third = (backend.put_one(key=JobKey("a", 1)) for _ in range(3))
    assert backend.cancel(first).let_through == 1
    assert backend.cancel(third).let_through == 0, "it waited behind the second"
    found = backend.look(third)
    assert found.run_after_ms < WAITS_FOR_KEY_MS
    assert backend.take_names() == [second]


def test_one_in_the_middle_of_an_ordered_key(backend):
    key = JobKey("a", 1, is_ordered=True)
    first, second, third = (backend.put_one(key=key) for _ in range(3))
    backend.cancel(second)
    assert backend.take_names() == [first]
    backend.ack(first)
    assert backend.take_names() == [third]


def test_one_that_is_only_asked_makes_no_room(backend):
    descriptor, claim = backend.started(key=JobKey("a", 1))
    second = backend.put_one(key=JobKey("a", 1))
    assert backend.cancel(descriptor).let_through == 0
    assert backend.take() == []
    assert backend.fail(descriptor, claim=claim).let_through == 1
    assert backend.take_names() == [second]


# By hand


@pytest.mark.parametrize("by_descriptor", [False, True])
@pytest.mark.parametrize("was_running", [False, True])
def test_a_job_that_is_retried_by_hand_has_no_mark_any_more(backend, by_descriptor, was_running):
    if was_running:
        descriptor, claim = asked(backend)
        backend.fail(descriptor, claim=claim)
    else:
        descriptor = backend.put_one(run_after_ms=FAR_MS)
        backend.cancel(descriptor)
    if by_descriptor:
        assert backend.retry_these_jobs(QUEUE, [JobDescriptor.parse(descriptor)], 3, None) == 1
    else:
        assert backend.retry(attempts=3) == 1
    assert not backend.look(descriptor).is_cancelled
    claim = backend.claim()
    assert [job.descriptor for job in backend.dequeue_jobs(QUEUE, 1, claim).jobs] == [descriptor]
    assert backend.checkpoint(descriptor, claim=claim.descriptor).cancelled == ()
    backend.fail(descriptor)
    assert backend.state(descriptor) == PENDING


@pytest.mark.parametrize("state", [PENDING, IN_PROGRESS])
def test_cancelled_jobs_are_deleted_like_others(backend, state):
    descriptor = backend.put_one() if state == PENDING else backend.started()[0]
    backend.cancel(descriptor)
    assert backend.delete(FAILED if state == PENDING else IN_PROGRESS) == 1
    assert backend.look(descriptor) is None


def test_the_mark_is_imported(backend):
    (descriptor,) = backend.import_jobs(QUEUE, [record(FAILED)._replace(is_cancelled=True)])
    assert is_cancelled(backend, descriptor)


def test_an_imported_job_that_was_asked_to_stop_does_not_run(backend):
    (descriptor,) = backend.import_jobs(QUEUE, [record(IN_PROGRESS, key="once")._replace(is_cancelled=True)])
    assert is_cancelled(backend, descriptor)
    assert backend.look(descriptor).unique is None
    assert backend.take() == []


# Sleeping jobs


def test_a_sleeping_job_is_cancelled_and_not_woken(backend):
    descriptor = backend.asleep(("go", 1))
    assert names_of(backend.cancel(descriptor).ended) == [descriptor]
    assert backend.look(descriptor).waits_for == ()
    assert not backend.send(descriptor, "go")
    assert backend.take() == []
    backend.retry_failed_jobs(QUEUE, 1, 1, FAR_MS, 10)
    assert backend.send(descriptor, "go")
    assert backend.take() == [], "what it waited for is over"

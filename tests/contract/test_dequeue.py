"""Dequeue: PENDING and due -> IN_PROGRESS, in order, each job to one caller."""

import itertools
import random

from pinlater.model.keys import JobKey
from pinlater.protocol.messages import IN_PROGRESS, PENDING
from pinlater.server.backends.records import Dequeued
from tests.support.bench import LEASE_MS, QUEUE, new_job


def test_a_claimed_job_is_in_progress_and_costs_no_attempt(backend):
    created = backend.clock.now_ms
    descriptor = backend.put_one(b"hello", attempts=3, status="new")
    now = backend.clock.advance(1500)
    claim = backend.claim("shop:web1")
    (job,) = backend.dequeue_jobs(QUEUE, 10, claim).jobs
    assert job == (descriptor, b"hello", 3, 3, created, created)
    assert backend.look(descriptor) == (
        descriptor, IN_PROGRESS, 3, 3, "new", created, created, now, claim.descriptor, b"hello", None, None, None,
        False, None, (), None, None,
    )  # fmt: skip
    assert backend.counts() == (0, 1, 0, 0)


def test_an_empty_queue_gives_nothing(backend):
    assert backend.dequeue_jobs(QUEUE, 10, backend.claim()) == Dequeued([], None, has_more=False)


def test_a_claimed_job_is_not_handed_out_again(backend):
    backend.put_one()
    assert len(backend.take()) == 1
    backend.clock.advance(LEASE_MS * 10)
    assert backend.take() == []  # only the monitor ends claims


def test_lower_numbers_of_priority_come_first(backend):
    third, second, first = (backend.put_one(priority=priority) for priority in (3, 2, 1))
    assert [backend.take_names(1) for _ in range(4)] == [[first], [second], [third], []]


def test_the_order_is_priority_then_run_after_then_id(backend):
    now = backend.clock.now_ms
    chance = random.Random(7)
    keys = [(chance.randint(1, 3), now - chance.randint(0, 5)) for _ in range(200)]
    names = backend.put(*[new_job(priority=priority, run_after_ms=run_after) for priority, run_after in keys])
    expected = [names[at] for _, at in sorted((key, at) for at, key in enumerate(keys))]
    assert [job.descriptor for job in backend.peek_jobs(QUEUE, 1000)] == expected
    taken = []
    for size in itertools.cycle((1, 7, 40)):
        some = backend.take_names(size)
        if not some:
            break
        taken += some
    assert taken == expected


def test_a_job_for_later_waits_for_its_millisecond(backend):
    due = backend.clock.now_ms + 1000
    descriptor = backend.put_one(run_after_ms=due)
    backend.clock.advance(999)
    assert backend.take() == []
    assert backend.state(descriptor) == PENDING
    backend.clock.advance(1)
    assert backend.take_names() == [descriptor]


def test_a_job_enqueued_now_can_be_dequeued_now(backend):
    backend.clock.advance(999)  # nothing is rounded up to the next second
    descriptor = backend.put_one()
    assert backend.take_names() == [descriptor]


def test_a_job_beyond_2038_is_served_in_time(backend):
    due = 4_102_444_800_123
    descriptor = backend.put_one(run_after_ms=due)
    backend.clock.now_ms = due - 1
    assert backend.take() == []
    backend.clock.now_ms = due
    assert backend.take_names() == [descriptor]


def test_an_urgent_job_for_later_does_not_hide_a_due_one(backend):
    backend.put_one(priority=1, run_after_ms=backend.clock.now_ms + 1)
    due = backend.put_one(priority=3)
    assert backend.take_names() == [due]


def test_the_limit_is_kept_across_priorities(backend):
    backend.put(*[new_job(priority=priority) for priority in (1, 2, 3) for _ in range(4)])
    assert [name.split(":")[2] for name in backend.take_names(6)] == ["p1"] * 4 + ["p2"] * 2
    assert [name.split(":")[2] for name in backend.take_names(6)] == ["p2"] * 2 + ["p3"] * 4


def test_a_full_dequeue_knows_whether_more_jobs_are_due(backend):
    """Otherwise, each job of an idle queue would wake another dequeue in vain."""
    later = backend.clock.now_ms + 5000
    backend.put(*[new_job(priority=priority) for priority in (1, 2, 2)], new_job(priority=3, run_after_ms=later))
    told = []
    for limit in (1, 1, 1):
        found = backend.dequeue_jobs(QUEUE, limit, backend.claim(), want_next_due=True)
        told.append((len(found.jobs), found.has_more, found.next_due_ms))
    assert told == [(1, True, None), (1, True, None), (1, False, later)]


def test_a_full_dequeue_of_a_key_knows_that_the_next_job_is_through(backend):
    backend.put(*[new_job(key=JobKey("a"))] * 2)
    found = [backend.dequeue_jobs(QUEUE, 1, backend.claim(), want_next_due=True) for _ in range(2)]
    assert [(len(one.jobs), one.has_more, one.next_due_ms) for one in found] == [(1, True, None), (1, False, None)]


def test_the_next_due_time_is_told_when_asked_for(backend):
    later = backend.clock.now_ms + 5000
    for priority, delay in ((1, 9), (2, 0), (3, 4)):
        backend.put_one(priority=priority, run_after_ms=later + delay)
    assert backend.dequeue_jobs(QUEUE, 1, backend.claim(), want_next_due=True) == Dequeued([], later, has_more=False)
    assert backend.dequeue_jobs(QUEUE, 1, backend.claim()) == Dequeued([], None, has_more=False)
    backend.put_one()
    assert backend.dequeue_jobs(QUEUE, 2, backend.claim(), want_next_due=True).next_due_ms == later
    backend.create_queue("thumbnails")
    assert backend.dequeue_jobs("thumbnails", 1, backend.claim(), want_next_due=True) == Dequeued(
        [], None, has_more=False
    )


def test_many_jobs_are_each_handed_out_once(backend):
    names = backend.put(*[new_job(attempts=1, priority=n % 3 + 1) for n in range(100)])
    taken = [name for _ in range(10) for name in backend.take_names(10)]
    assert sorted(taken) == sorted(names)
    backend.ack(*taken[:50])
    backend.fail(*taken[50:])
    assert backend.counts() == (0, 0, 50, 50)


def test_dequeues_at_once_share_the_jobs(backend):
    names = backend.put(*[new_job() for _ in range(60)])
    store = backend.backend
    calls = [lambda: store.dequeue_jobs(QUEUE, 7, backend.claim()) for _ in range(16)]
    taken = [job.descriptor for dequeued in backend.together(*calls) for job in dequeued.jobs]
    assert sorted(taken) == sorted(names)


def test_each_dequeue_has_its_own_claim(backend):
    first, second = backend.started(source="a"), backend.started(source="a")
    assert backend.look(first[0]).claim == first[1] != second[1] == backend.look(second[0]).claim


def test_a_source_of_any_length_and_script_works(backend):
    source = "späť:重试:🐙:%_'" + "x" * 5000
    descriptor, claim = backend.started(source=source)
    assert backend.look(descriptor).claim == claim
    assert source in claim
    assert backend.checkpoint(descriptor, source=source).changed == 1


def test_claims_survive_a_crash(backend):
    descriptor, claim = backend.started()
    backend.crash()
    assert backend.look(descriptor).claim == claim
    assert backend.take() == []
    assert backend.ack(descriptor, claim=claim).changed == 1


def test_a_dry_run_shows_what_a_dequeue_would_give_and_changes_nothing(backend):
    names = backend.put(*[new_job(f"{n}".encode(), priority=n % 3 + 1) for n in range(9)])
    backend.put_one(run_after_ms=backend.clock.now_ms + 1)
    before = [backend.look(name) for name in names]
    shown = backend.peek_jobs(QUEUE, 5)
    assert len(shown) == 5
    assert backend.peek_jobs(QUEUE, 5) == shown
    assert [backend.look(name) for name in names] == before
    assert backend.take(5) == shown


def test_metadata_after_a_failure(backend):
    descriptor, _ = backend.started(attempts=2)
    backend.fail(descriptor)
    assert [(job.attempts_allowed, job.attempts_remaining) for job in backend.peek_jobs(QUEUE, 1)] == [(2, 1)]
    assert [(job.attempts_allowed, job.attempts_remaining) for job in backend.take()] == [(2, 1)]

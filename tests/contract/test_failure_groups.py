"""Failure groups: which jobs are in which, how many, since when; and what becomes of groups without jobs."""

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import CLAIM_EXPIRED, OTHER_ERRORS, failure_of
from pinlater.model.jobs import JobRecord
from pinlater.model.keys import JobKey
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.failure_budget import (
    FIRST_LOOK_MS,
    KEPT_EMPTY_MS,
    MOST_COUNTED,
    MOST_GROUPS,
    NOTED_EVERY_MS,
)
from tests.support.bench import FAR_MS, LEASE_MS, QUEUE, START_MS, ack_of, new_job

REFUSED = failure_of("SendMail", "OSError: connection 17 refused")
LATE = failure_of("SendMail", "TimeoutError")


def failing(backend, failure=REFUSED, *, retry_delay_ms=5000, is_final=False, attempts=3, **options):
    """Enqueue a job and let its first attempt fail; return its descriptor."""
    descriptor, claim = backend.started(attempts=attempts, **options)
    backend.fail(descriptor, claim=claim, failure=failure, retry_delay_ms=retry_delay_ms, is_final=is_final)
    return descriptor


def groups(backend, *queues, limit=100):
    """Return given up and retrying jobs of each group."""
    return {each.id: (each.given_up, each.retrying) for each in backend.failure_groups(queues, limit)}


def group_of(backend, descriptor):
    return backend.look(descriptor).failure_group


def place(descriptor):
    """Return its place among jobs that are due at the same time."""
    job = JobDescriptor.parse(descriptor)
    return job.shard, job.local_id


def test_a_group_says_what_its_failures_have_in_common(backend):
    failing(backend, retry_delay_ms=10**6)
    first = backend.clock.now_ms
    last = backend.clock.advance(90_000)
    failing(backend, failure_of("SendMail", "OSError: connection 4 refused"), is_final=True)
    failing(backend, LATE)
    failing(backend, failure_of("", "OSError: connection 4 refused"))
    found = backend.failure_groups([], 100)
    assert found[0] == (
        QUEUE, REFUSED.group, "SendMail", "OSError: connection # refused", "OSError: connection 17 refused",
        first, last, 1, 1,
    )  # fmt: skip
    assert sorted((one.job, one.error, one.jobs) for one in found[1:]) == [
        ("", "OSError: connection # refused", 1),
        ("SendMail", "TimeoutError", 1),
    ]
    assert backend.failure_groups([], 1) == found[:1]


def test_queues_have_groups_of_their_own(backend):
    backend.create_queue("other")
    failing(backend)
    descriptor, _ = backend.started()
    backend.enqueue_jobs("other", [new_job()])
    [job] = backend.dequeue_jobs("other", 1, backend.claim()).jobs
    backend.fail(job.descriptor, queue="other", failure=REFUSED, is_final=True)
    assert groups(backend, QUEUE) == {REFUSED.group: (0, 1)}
    assert groups(backend, "other", "missing") == {REFUSED.group: (1, 0)}
    assert sorted((one.queue, *one[-2:]) for one in backend.failure_groups([], 9)) == [(QUEUE, 0, 1), ("other", 1, 0)]
    backend.delete_queue("other")
    backend.collect_finished(0, 0, 1000)
    backend.create_queue("other")
    assert groups(backend, "other") == {}
    assert backend.state(descriptor) == IN_PROGRESS


def test_a_job_is_in_its_group_until_it_succeeds(backend):
    descriptor = failing(backend)
    assert group_of(backend, descriptor) == REFUSED.group
    assert (backend.count(is_retrying=True), groups(backend)) == (1, {REFUSED.group: (0, 1)})
    backend.clock.advance(5000)
    assert backend.count(is_retrying=True) == 1, "due now, and retrying all the same"
    assert backend.take_names() == [descriptor]
    assert (backend.count(is_retrying=True), groups(backend)) == (0, {})
    assert group_of(backend, descriptor) == REFUSED.group, "its last attempt has failed, this one has not ended"
    backend.ack(descriptor)
    assert (group_of(backend, descriptor), groups(backend)) == (None, {})


def test_the_last_failure_counts(backend):
    descriptor = failing(backend)
    backend.clock.advance(5000)
    backend.take()
    backend.fail(descriptor, failure=LATE)
    assert groups(backend) == {LATE.group: (0, 1)}
    backend.take()
    backend.fail(descriptor, failure=REFUSED)
    assert (backend.state(descriptor), groups(backend)) == (FAILED, {REFUSED.group: (1, 0)})


@pytest.mark.parametrize("key", [JobKey("a", 1), JobKey("a", rate="100/s")], ids=["limit", "rate"])
@pytest.mark.parametrize("second", [LATE, CLAIM_EXPIRED], ids=["failed", "expired"])
def test_the_last_failure_of_a_job_that_makes_way_for_another_of_its_key_counts(backend, second, key):
    descriptor = failing(backend, retry_delay_ms=0, key=key)
    backend.clock.advance(100)
    assert backend.take_names() == [descriptor]
    backend.put_one(key=key)
    if second is CLAIM_EXPIRED:
        backend.clock.advance(LEASE_MS + 1)
        backend.reap()
    else:
        backend.fail(descriptor, failure=second, retry_delay_ms=5000)
    assert group_of(backend, descriptor) == second.group
    assert groups(backend)[second.group] == (0, 1)
    assert groups(backend).get(REFUSED.group, (0, 0)) == (0, 0)
    assert backend.scan(failure_group=REFUSED.group).jobs == []


def test_a_job_that_is_given_back_is_retrying_still(backend):
    first, second, third = (failing(backend) for _ in range(3))
    backend.clock.advance(5000)
    backend.take()
    backend.checkpoint(first, move_to_pending=True)
    backend.checkpoint(second, move_to_pending=True, run_after_ms=backend.clock.now_ms + 7, waits_for=())
    backend.release_claims(QUEUE, "worker")
    assert (backend.count(is_retrying=True), groups(backend)) == (3, {REFUSED.group: (0, 3)})
    assert backend.count(is_retrying=True, is_future=True) == 1
    backend.schedule_jobs(QUEUE, [JobDescriptor.parse(second)], None)
    assert (backend.count(is_retrying=True, is_future=True), backend.count(is_retrying=True)) == (0, 3)
    assert {one.descriptor for one in backend.scan(is_retrying=True).jobs} == {first, second, third}


def test_a_job_with_new_attempts_has_no_failure_behind_it(backend):
    given_back, kept = (failing(backend) for _ in range(2))
    backend.clock.advance(5000)
    backend.take()
    backend.checkpoint(given_back, move_to_pending=True, attempts=2)
    backend.checkpoint(kept, attempts=2)
    backend.release_claims(QUEUE, "worker")
    assert (backend.count(is_retrying=True), groups(backend)) == (0, {})
    assert [group_of(backend, name) for name in (given_back, kept)] == [None, None]


def test_a_sleeping_job_stays_in_its_group(backend):
    descriptor = failing(backend, retry_delay_ms=0)
    backend.take()
    backend.sleep(descriptor, ("go", 1))
    assert (backend.count(is_retrying=True, is_future=True), groups(backend)) == (1, {REFUSED.group: (0, 1)})
    backend.send(descriptor)
    assert (backend.count(is_retrying=True, is_future=False), backend.count(is_retrying=True)) == (1, 1)
    assert backend.take_names() == [descriptor]
    assert groups(backend) == {}


def test_a_retry_by_hand_begins_anew(backend):
    by_name, by_priority = (failing(backend, is_final=True, priority=priority) for priority in (1, 2))
    waiting = failing(backend)
    assert groups(backend) == {REFUSED.group: (2, 1)}
    assert backend.retry_these_jobs(QUEUE, [JobDescriptor.parse(by_name), JobDescriptor.parse(waiting)], 1, None) == 1
    assert groups(backend) == {REFUSED.group: (1, 1)}
    assert backend.retry(priority=2) == 1
    assert groups(backend) == {REFUSED.group: (0, 1)}
    assert [group_of(backend, name) for name in (by_name, by_priority)] == [None, None]


def retrying_with_all_its_attempts(backend, **options):
    """Return a job that was retried by hand with more attempts than it is allowed, and has failed again.

    It has as many left as it is allowed then.
    """
    descriptor = failing(backend, attempts=1, **options)
    assert backend.retry(attempts=2) == 1
    backend.take()
    backend.fail(descriptor, failure=LATE, retry_delay_ms=5000)
    found = backend.look(descriptor)
    assert (found.attempts_allowed, found.attempts_remaining, found.failure_group) == (1, 1, LATE.group)
    return descriptor


RUNS = {
    "given back": lambda backend, name: backend.checkpoint(name, move_to_pending=True, run_after_ms=FAR_MS),
    "saved and given back": lambda backend, name: backend.checkpoint(
        name, body=b"new", move_to_pending=True, run_after_ms=FAR_MS
    ),
    "released": lambda backend, _: backend.release_claims(QUEUE, "worker"),
    "asleep": lambda backend, name: backend.sleep(name, ("go", 1)),
    "asleep and woken": lambda backend, name: (backend.sleep(name, ("go", 1)), backend.send(name)),
}


@pytest.mark.parametrize("body", [b"", b"body"])
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_job_that_was_retried_by_hand_with_more_attempts_is_in_its_group(backend, run, body):
    descriptor = retrying_with_all_its_attempts(backend, body=body)
    assert groups(backend) == {LATE.group: (0, 1)}
    backend.clock.advance(5000)
    assert (backend.take_names(), groups(backend)) == ([descriptor], {})
    run(backend, descriptor)
    assert groups(backend) == {LATE.group: (0, 1)}
    assert backend.count(is_retrying=True, is_future=backend.look(descriptor).run_after_ms == FAR_MS) == 1
    backend.schedule_jobs(QUEUE, [JobDescriptor.parse(descriptor)], backend.clock.now_ms)
    assert backend.count(is_retrying=True, is_future=False) == 1
    backend.take()
    backend.ack(descriptor)
    assert (backend.state(descriptor), groups(backend), group_of(backend, descriptor)) == (SUCCEEDED, {}, None)


def test_such_a_job_waits_for_its_key_in_its_group(backend):
    key = JobKey("a", 1)
    descriptor = failing(backend, attempts=2, is_final=True, key=key)
    assert backend.retry(attempts=3) == 1
    backend.take()
    backend.fail(descriptor, failure=LATE, retry_delay_ms=5000)
    found = backend.look(descriptor)
    assert (found.attempts_allowed, found.attempts_remaining) == (2, 2)
    other = backend.put_one(key=key)
    assert backend.take_names() == [other], "the one that is not due makes way"
    backend.clock.advance(6000)
    assert [backend.count(is_retrying=True, is_future=future) for future in (True, False)] == [1, 0]
    assert [one.descriptor for one in backend.scan(is_retrying=True, is_future=True).jobs] == [descriptor]
    backend.ack(other)
    assert [backend.count(is_retrying=True, is_future=future) for future in (True, False)] == [0, 1]
    assert [one.descriptor for one in backend.scan(is_retrying=True, is_future=False).jobs] == [descriptor]


def test_an_imported_job_that_has_more_attempts_left_than_it_is_allowed_is_in_its_group(backend):
    given = JobRecord("elsewhere:s1:p1:1", PENDING, 1, 2, "", START_MS, START_MS, START_MS, None, b"body", None)
    (descriptor,) = backend.import_jobs(QUEUE, [given])
    assert (backend.take_names(), groups(backend)) == ([descriptor], {})
    backend.fail(descriptor, failure=LATE)
    assert groups(backend) == {LATE.group: (0, 1)}


def test_such_a_job_leaves_its_group_with_new_attempts_and_takes_it_along(backend):
    descriptor = retrying_with_all_its_attempts(backend)
    backend.create_queue("other")
    (copy,) = backend.import_jobs("other", [backend.look(descriptor)])
    assert groups(backend, "other") == {group_of(backend, copy): (0, 1)}
    backend.clock.advance(5000)
    backend.take()
    backend.checkpoint(descriptor, attempts=1, move_to_pending=True)
    assert (groups(backend, QUEUE), group_of(backend, descriptor)) == ({}, None)


def test_a_cancelled_job_has_not_failed(backend):
    waiting, given_up, running = (failing(backend, is_final=final) for final in (False, True, False))
    asked, _ = backend.started(attempts=5)
    stopped, _ = backend.started(attempts=5)
    backend.cancel(waiting, given_up)
    assert groups(backend) == {REFUSED.group: (1, 1)}, "one that is given up is too late to be cancelled"
    backend.cancel(asked, stopped)
    backend.fail(asked, failure=LATE)
    backend.ack_dequeued_jobs(QUEUE, [], [])
    backend.fail(stopped, is_cancelled=True)
    backend.clock.advance(5000)
    assert backend.take_names() == [running]
    backend.cancel(running)
    backend.checkpoint(running, move_to_pending=True)
    assert [backend.state(name) for name in (waiting, asked, stopped, running)] == [FAILED] * 4
    assert [group_of(backend, name) for name in (waiting, asked, stopped, running)] == [None] * 4
    assert groups(backend) == {REFUSED.group: (1, 0)}


def test_a_claim_that_expires_is_a_failure_of_its_own_kind(backend):
    for attempts in (1, 2, 2):
        backend.started(attempts=attempts)
    asked, _ = backend.started()
    backend.cancel(asked)
    now = backend.clock.advance(LEASE_MS)
    backend.reap()
    [group] = backend.failure_groups([QUEUE], 10)
    assert group == (QUEUE, CLAIM_EXPIRED.group, "", "claim expired", "claim expired", now, now, 1, 2)
    assert group_of(backend, asked) is None


def test_a_stale_failure_changes_no_group(backend):
    descriptor, claim = backend.started()
    backend.release_claims(QUEUE, "worker")
    backend.fail(descriptor, claim=claim, failure=REFUSED)
    assert (group_of(backend, descriptor), groups(backend)) == (None, {})


@pytest.mark.parametrize("is_claimed_again", [False, True])
def test_stale_failures_leave_the_groups_as_they_are(backend, is_claimed_again):
    failing(backend, retry_delay_ms=10**9)
    [before] = backend.failure_groups([QUEUE], 10)
    descriptor, claim = backend.started(priority=3)
    backend.release_claims(QUEUE, "worker")
    if is_claimed_again:
        assert backend.take_names() == [descriptor]
    backend.clock.advance(10 * NOTED_EVERY_MS)
    failures = [REFUSED, *(failure_of(f"Class{chr(97 + n // 26)}{chr(97 + n % 26)}", "") for n in range(MOST_GROUPS))]
    stale = [ack_of(descriptor, claim=claim, failure=failure) for failure in failures]
    assert backend.ack_dequeued_jobs(QUEUE, [], stale).changed == 0
    assert backend.failure_groups([QUEUE], 10) == [before]
    failing(backend, LATE)
    assert groups(backend) == {REFUSED.group: (0, 1), LATE.group: (0, 1)}


def test_deleted_and_collected_jobs_leave_their_groups(backend):
    waiting, given_up, collected = (failing(backend, is_final=final) for final in (False, True, True))
    assert backend.delete_these_jobs(QUEUE, [JobDescriptor.parse(waiting)], PENDING) == 1
    assert backend.delete_these_jobs(QUEUE, [JobDescriptor.parse(given_up)], FAILED) == 1
    assert groups(backend) == {REFUSED.group: (1, 0)}
    backend.clock.advance(1000)
    backend.collect_finished(500, 500, 100)
    assert (backend.look(collected), groups(backend)) == (None, {})
    failing(backend)
    assert backend.delete(PENDING) == 1
    assert (backend.count(is_retrying=True), groups(backend)) == (0, {})


def test_the_scan_of_a_group_or_of_what_is_retrying(backend):
    now = backend.clock.now_ms
    retrying = [failing(backend, priority=n % 3 + 1, retry_delay_ms=1 + n // 2) for n in range(7)]
    other = failing(backend, LATE, retry_delay_ms=100)
    given_up = [failing(backend, is_final=True, priority=n % 3 + 1) for n in range(4)]
    backend.put(new_job(run_after_ms=now + 50))
    for oldest_first in (False, True):
        order = {name: (backend.look(name).run_after_ms, *place(name)) for name in (*retrying, other, *given_up)}
        for expected, state, which in (
            (retrying, PENDING, {"failure_group": REFUSED.group}),
            (given_up, FAILED, {"failure_group": REFUSED.group}),
            ([], FAILED, {"failure_group": LATE.group}),
            ([*retrying, other], PENDING, {"is_retrying": True}),
            ([*retrying[::3], other], PENDING, {"is_retrying": True, "priority": 1}),
        ):
            wanted = sorted(expected, key=order.get, reverse=not oldest_first)
            for limit in (2, 100):
                found, position = [], None
                while not found or position is not None:
                    page = backend.scan(state, limit=limit, position=position, oldest_first=oldest_first, **which)
                    found += page.jobs
                    position = page.position
                    if not page.jobs:
                        break
                assert [one.descriptor for one in found] == wanted
                assert all(one == backend.look(one.descriptor)._replace(body=None) for one in found)
            assert backend.count(state, **which) == len(wanted)


def test_bodies_of_a_group_can_be_searched(backend):
    wanted = failing(backend, body=b"for customer 17")
    failing(backend, body=b"for customer 18")
    failing(backend, LATE, body=b"for customer 17")
    which = {"failure_group": REFUSED.group, "body_regex": "customer 17"}
    assert ([one.descriptor for one in backend.scan(**which).jobs], backend.count(**which)) == ([wanted], 1)


def test_a_queue_has_room_for_so_many_groups(backend):
    failures = [failure_of(f"Class{chr(97 + n // 26)}{chr(97 + n % 26)}", "broken") for n in range(MOST_GROUPS + 3)]
    backend.put(*[new_job(attempts=1) for _ in failures])
    names = backend.take_names(1000)
    for name, failure in zip(names, failures, strict=True):
        backend.fail(name, failure=failure)
    found = groups(backend, limit=1000)
    assert found.pop(OTHER_ERRORS.group) == (3, 0)
    assert len(found) == MOST_GROUPS
    backend.started(attempts=1)
    backend.clock.advance(LEASE_MS)
    backend.reap()
    assert groups(backend, limit=1000)[CLAIM_EXPIRED.group] == (1, 0), "there is always room for expired claims"
    # Groups that are empty make room within hours, where there are many.
    backend.delete(FAILED)
    for _ in range(3):
        backend.clock.advance(FIRST_LOOK_MS + 1)
        backend.forget_results(1000)
    failing(backend)
    assert groups(backend) == {REFUSED.group: (0, 1)}


def test_an_empty_group_is_forgotten_after_a_week(backend):
    descriptor = failing(backend)
    backend.clock.advance(5000)
    backend.take()
    backend.ack(descriptor)
    stays = failing(backend, LATE, is_final=True)
    first_ms = backend.clock.now_ms
    for _ in range(2):
        backend.clock.advance(KEPT_EMPTY_MS // 2 - FIRST_LOOK_MS)
        backend.forget_results(100)
    failing(backend)
    assert _first(backend, REFUSED) == START_MS, "it was there before"
    assert backend.delete(PENDING) == 1
    for _ in range(2):
        backend.clock.advance(KEPT_EMPTY_MS)
        backend.forget_results(100)
    failing(backend)
    assert _first(backend, REFUSED) == backend.clock.now_ms
    assert (_first(backend, LATE), backend.state(stays)) == (first_ms, FAILED)


def _first(backend, failure):
    [found] = [one for one in backend.failure_groups([], 10) if one.id == failure.group]
    return found.first_ms


def test_imported_jobs_keep_their_failures(backend):
    body = b'{"job":"SendMail","to":1}'

    def record(state, **options):
        return JobRecord(
            "elsewhere:s7d1:p1:42", state, 5, 3, "OSError: connection 9 refused", START_MS, START_MS, START_MS, None,
            body, **options,
        )  # fmt: skip

    waiting, given_up, fresh, cancelled, running = backend.import_jobs(
        QUEUE,
        [
            record(PENDING, failure_group=5),
            record(FAILED),
            record(PENDING),
            record(FAILED, is_cancelled=True),
            record(IN_PROGRESS, failure_group=5),
        ],
    )
    assert groups(backend) == {REFUSED.group: (1, 2)}
    expected = [REFUSED.group, REFUSED.group, None, None, REFUSED.group]
    assert [group_of(backend, name) for name in (waiting, given_up, fresh, cancelled, running)] == expected


def test_counts_of_a_group_are_bounded():
    assert MOST_COUNTED == 10_000

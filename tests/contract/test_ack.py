"""Acks: IN_PROGRESS -> SUCCEEDED, PENDING or FAILED; anything else stays as it is."""

import pytest

from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.records import MAX_STATUS_CHARACTERS
from tests.support.bench import LEASE_MS, QUEUE, ack_of, new_job

DELAY_MS = 2000


def test_success_keeps_the_attempts_and_the_claim(backend):
    descriptor, claim = backend.started(b"hello", attempts=2)
    before = backend.look(descriptor)
    now = backend.clock.advance(7)
    assert backend.ack(descriptor)[:3] == (1, 0, None)
    assert backend.look(descriptor) == before._replace(state=SUCCEEDED, updated_at_ms=now, claim=claim)
    assert backend.take() == []


def test_a_failure_with_attempts_left_waits_out_its_delay(backend):
    descriptor, _ = backend.started(b"hello", attempts=2)
    before = backend.look(descriptor)
    now = backend.clock.advance(7)
    assert backend.fail(descriptor, retry_delay_ms=DELAY_MS)[:3] == (1, 0, now + DELAY_MS)
    assert backend.look(descriptor) == before._replace(
        state=PENDING, attempts_remaining=1, run_after_ms=now + DELAY_MS, updated_at_ms=now, claim=None
    )
    backend.clock.advance(DELAY_MS - 1)
    assert backend.take() == []
    backend.clock.advance(1)
    assert backend.take_names() == [descriptor]


@pytest.mark.parametrize("delay_ms", [0, -1, -(10**12)])
def test_without_a_delay_the_retry_is_due_at_once(backend, delay_ms):
    descriptor, _ = backend.started()
    now = backend.clock.advance(7)
    assert backend.fail(descriptor, retry_delay_ms=delay_ms).due_ms == now
    assert backend.take_names() == [descriptor]


def test_the_next_retry_is_not_that_of_a_final_failure(backend):
    (first, _), (second, _) = backend.started(), backend.started()
    acks = [ack_of(first, retry_delay_ms=10, is_final=True), ack_of(second, retry_delay_ms=1000)]
    assert backend.ack_dequeued_jobs(QUEUE, [], acks).due_ms == backend.clock.now_ms + 1000
    third, _ = backend.started()
    assert backend.fail(third, is_final=True).due_ms is None


def test_a_delay_beyond_the_end_of_time_spoils_nothing(backend):
    (first, _), (second, _) = backend.started(), backend.started()
    acks = [ack_of(first, retry_delay_ms=2**63 - 1), ack_of(second, retry_delay_ms=1000)]
    assert backend.ack_dequeued_jobs(QUEUE, [], acks)[:3] == (2, 0, backend.clock.now_ms + 1000)
    assert backend.look(first).run_after_ms == 2**63 - 1
    assert backend.count(is_future=True) == 2


def test_the_last_failure_ends_the_job(backend):
    descriptor, claim = backend.started(b"hello", attempts=1)
    before = backend.look(descriptor)
    now = backend.clock.advance(7)
    assert backend.fail(descriptor, retry_delay_ms=DELAY_MS).changed == 1
    assert backend.look(descriptor) == before._replace(
        state=FAILED, attempts_remaining=0, updated_at_ms=now, claim=claim
    )
    backend.clock.advance(DELAY_MS)
    assert backend.take() == []


def test_a_final_failure_ends_the_job_whatever_remains(backend):
    descriptor, _ = backend.started(attempts=5)
    backend.fail(descriptor, is_final=True)
    assert (backend.state(descriptor), backend.look(descriptor).attempts_remaining) == (FAILED, 0)


@pytest.mark.parametrize("attempts", [0, -1, -(2**31)])
def test_no_job_is_stuck_for_having_no_attempts(backend, attempts):
    failing, _ = backend.started(attempts=attempts)
    backend.fail(failing)
    assert (backend.state(failing), backend.look(failing).attempts_remaining) == (FAILED, 0)
    succeeding, _ = backend.started(attempts=attempts)
    backend.ack(succeeding)
    assert backend.state(succeeding) == SUCCEEDED
    expiring, _ = backend.started(attempts=attempts)
    backend.clock.advance(LEASE_MS)
    backend.reap()
    assert (backend.state(expiring), backend.look(expiring).attempts_remaining) == (FAILED, 0)


def test_five_jobs_with_three_attempts_each(backend):
    names = [backend.put_one(attempts=3) for _ in range(5)]
    for left in (4, 3):
        backend.take(5)
        backend.ack(names[left])
        backend.fail(*names[:left])
    assert [backend.state(name) for name in names] == [PENDING] * 3 + [SUCCEEDED] * 2
    backend.take(5)
    backend.fail(*names[:3])
    assert backend.counts() == (0, 0, 2, 3)
    assert backend.take() == []


@pytest.mark.parametrize("state", [PENDING, SUCCEEDED, FAILED])
@pytest.mark.parametrize("verb", ["ack", "fail"])
def test_an_ack_changes_no_job_that_is_not_in_progress(backend, state, verb):
    descriptor = backend.put_one() if state == PENDING else backend.finished(state=state)
    before = backend.look(descriptor)
    backend.clock.advance(7)
    settled = getattr(backend, verb)(descriptor, status="late")
    assert (settled.changed, settled.stale) == (0, 1)
    assert backend.look(descriptor) == before


@pytest.mark.parametrize("verb", ["ack", "fail"])
def test_an_ack_of_a_job_that_is_gone_does_nothing(backend, verb):
    descriptor, _ = backend.started()
    backend.delete(IN_PROGRESS)
    settled = getattr(backend, verb)(descriptor)
    assert (settled.changed, settled.stale) == (0, 1)
    assert backend.look(descriptor) is None
    assert backend.counts() == (0, 0, 0, 0)


@pytest.mark.parametrize("verb", ["ack", "fail"])
def test_an_ack_with_the_present_claim_counts(backend, verb):
    descriptor, claim = backend.started(attempts=1)
    assert getattr(backend, verb)(descriptor, claim=claim).changed == 1


@pytest.mark.parametrize("verb", ["ack", "fail"])
@pytest.mark.parametrize(
    "spoil", [lambda claim: claim[:-1], lambda claim: claim + "0", str.upper, lambda _: "", lambda _: "%"]
)
def test_an_ack_with_another_claim_changes_nothing_and_is_counted(backend, verb, spoil):
    descriptor, claim = backend.started()
    before = backend.look(descriptor)
    settled = getattr(backend, verb)(descriptor, claim=spoil(claim), status="stale")
    assert (settled.changed, settled.stale) == (0, 1)
    assert backend.look(descriptor) == before


def test_the_ack_of_a_lost_claim_cannot_end_the_next_attempt(backend):
    descriptor, old = backend.started(attempts=3)
    backend.clock.advance(LEASE_MS)
    backend.reap()
    (job,) = backend.take()
    assert job.descriptor == descriptor
    assert backend.ack(descriptor, claim=old).stale == 1
    assert backend.fail(descriptor, claim=old).stale == 1
    assert backend.state(descriptor) == IN_PROGRESS
    assert backend.ack(descriptor).changed == 1  # without a claim: the original's rule, by state


def test_acks_are_safe_to_repeat(backend):
    done, _ = backend.started()
    backend.ack(done, status="once")
    failed, _ = backend.started(attempts=1)
    backend.fail(failed, status="once")
    before = [backend.look(done), backend.look(failed)]
    assert backend.ack(done, status="twice").stale == 1
    assert backend.fail(failed, status="twice").stale == 1
    assert [backend.look(done), backend.look(failed)] == before


def test_a_descriptor_of_another_priority_is_another_job(backend):
    descriptor, _ = backend.started()
    wrong = descriptor.replace(":p1:", ":p2:")
    assert backend.ack(wrong).changed == 0
    assert backend.fail(wrong).changed == 0
    assert backend.state(descriptor) == IN_PROGRESS


def test_one_call_settles_many_jobs_both_ways(backend):
    names = backend.put(*[new_job(priority=n % 3 + 1) for n in range(30)])
    claim = backend.claim()
    backend.dequeue_jobs(QUEUE, 30, claim)
    settled = backend.ack_dequeued_jobs(
        QUEUE,
        [ack_of(name, claim=claim.descriptor, status="ok" if at % 2 else "") for at, name in enumerate(names[:20])],
        [ack_of(name, claim=claim.descriptor if at % 2 else "other") for at, name in enumerate(names[20:])],
    )
    assert (settled.changed, settled.stale) == (25, 5)
    assert backend.counts() == (5, 5, 20, 0)
    assert [backend.look(name).status for name in names[:4]] == ["", "ok", "", "ok"]


def test_nothing_to_settle(backend):
    assert backend.ack_dequeued_jobs(QUEUE, [], [])[:3] == (0, 0, None)


def test_a_job_in_both_lists_is_settled_once(backend):
    descriptor, _ = backend.started()
    settled = backend.ack_dequeued_jobs(QUEUE, [ack_of(descriptor)], [ack_of(descriptor)])
    assert (settled.changed, settled.stale) == (1, 1)
    assert backend.state(descriptor) in {PENDING, SUCCEEDED}


def test_an_acknowledged_success_survives_a_crash_and_never_comes_back(backend):
    descriptor, _ = backend.started()
    backend.ack(descriptor)
    backend.crash()
    backend.clock.advance(LEASE_MS * 10)
    backend.reap()
    assert backend.state(descriptor) == SUCCEEDED
    assert backend.take() == []


# Custom status


def test_status_is_appended_whatever_the_outcome(backend):
    descriptor, _ = backend.started(attempts=3, status="new;")
    backend.fail(descriptor, status="first;")
    backend.take()
    backend.fail(descriptor)
    backend.take()
    backend.ack(descriptor, status="done")
    assert backend.look(descriptor).status == "new;first;done"


def test_status_is_appended_at_the_last_failure(backend):
    descriptor, _ = backend.started(attempts=1, status="new;")
    backend.fail(descriptor, status="over")
    assert backend.look(descriptor).status == "new;over"


@pytest.mark.parametrize("character", ["-", "é", "重", "🐙"])
def test_status_is_cut_by_characters(backend, character):
    for verb in ("ack", "fail"):
        descriptor, _ = backend.started(status="*")
        getattr(backend, verb)(descriptor, status=character * MAX_STATUS_CHARACTERS)
        assert backend.look(descriptor).status == "*" + character * (MAX_STATUS_CHARACTERS - 1)
        backend.delete(SUCCEEDED)
        backend.delete(PENDING)


def test_a_full_status_stays_as_it_is(backend):
    full = "*" * MAX_STATUS_CHARACTERS
    descriptor, _ = backend.started(status=full)
    backend.ack(descriptor, status="more")
    assert backend.look(descriptor).status == full


def test_jobs_that_fail_for_good_are_counted(backend):
    again, last, final, stale, done = (backend.started(attempts=attempts) for attempts in (2, 1, 5, 1, 1))
    acks = [
        ack_of(again[0], claim=again[1]),
        ack_of(last[0], claim=last[1], status="the end"),
        ack_of(final[0], claim=final[1], is_final=True),
        ack_of(stale[0], claim=f"{stale[1]}x"),
    ]
    settled = backend.ack_dequeued_jobs(QUEUE, [ack_of(done[0])], acks)
    assert (settled.changed, settled.stale, settled.failed) == (4, 1, 2)
    assert backend.counts() == (1, 1, 1, 2)
    assert backend.ack_dequeued_jobs(QUEUE, [], acks).failed == 0  # once only


def test_a_failure_that_is_retried_and_a_success_are_none_for_good(backend):
    (first, _), (second, _) = backend.started(attempts=2), backend.started(attempts=1)
    assert backend.fail(first).failed == 0
    assert backend.ack(second).failed == 0

"""Expiry: a claim without a sign of life ends; its attempt is spent."""

import pytest

from pinlater.model.failure_groups import CLAIM_EXPIRED
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING
from pinlater.server.clock import elapsed_seconds
from tests.support.bench import LEASE_MS, QUEUE, new_job


def test_with_attempts_left_the_job_goes_back(backend):
    descriptor, _ = backend.started(b"hello", attempts=2, status="s")
    before = backend.look(descriptor)
    now = backend.clock.advance(LEASE_MS)
    assert backend.reap() == [(QUEUE, 1, 0)]
    assert backend.look(descriptor) == before._replace(
        state=PENDING,
        attempts_remaining=1,
        run_after_ms=now,
        updated_at_ms=now,
        claim=None,
        failure_group=CLAIM_EXPIRED.group,
    )
    assert backend.take_names() == [descriptor]


def test_at_the_last_attempt_the_job_fails_and_keeps_its_claim(backend):
    descriptor, claim = backend.started(b"hello", attempts=1, status="s")
    before = backend.look(descriptor)
    now = backend.clock.advance(LEASE_MS)
    assert backend.reap() == [(QUEUE, 0, 1)]
    assert backend.look(descriptor) == before._replace(
        state=FAILED, attempts_remaining=0, updated_at_ms=now, claim=claim, failure_group=CLAIM_EXPIRED.group
    )


def test_half_of_a_hundred_fail(backend):
    backend.put(*[new_job(attempts=n % 2 + 1) for n in range(100)])
    backend.take()
    backend.clock.advance(LEASE_MS)
    assert backend.reap() == [(QUEUE, 50, 50)]
    assert backend.counts() == (50, 0, 0, 50)


def test_a_claim_lives_for_its_own_lease_to_the_millisecond(backend):
    short, _ = backend.started(lease_ms=1000)
    long, _ = backend.started(lease_ms=5000)
    backend.clock.advance(999)
    assert backend.reap() == []
    backend.clock.advance(1)
    backend.reap()
    assert (backend.state(short), backend.state(long)) == (PENDING, IN_PROGRESS)
    backend.clock.advance(3999)
    assert backend.reap() == []
    backend.clock.advance(1)
    backend.reap()
    assert backend.state(long) == PENDING


def test_a_checkpoint_keeps_the_lease_that_the_claim_asked_for(backend):
    descriptor, claim = backend.started(lease_ms=1000)
    backend.clock.advance(900)
    backend.checkpoint(descriptor, claim=claim)
    backend.clock.advance(1000)
    assert backend.reap() == [(QUEUE, 1, 0)]


def test_a_limit_is_kept_and_the_longest_expired_go_first(backend):
    names = []
    for _ in range(5):
        names.append(backend.started()[0])
        backend.clock.advance(10)
    backend.clock.advance(LEASE_MS)
    assert backend.reap(2) == [(QUEUE, 2, 0)]
    assert [backend.state(name) for name in names] == [PENDING] * 2 + [IN_PROGRESS] * 3
    assert backend.reap(2) == [(QUEUE, 2, 0)]
    assert backend.reap(2) == [(QUEUE, 1, 0)]
    assert backend.reap(2) == []


def test_each_queue_is_counted_by_itself(backend):
    backend.create_queue("thumbnails")
    for queue, attempts in ((QUEUE, 1), (QUEUE, 2), ("thumbnails", 2)):
        backend.put_one(attempts=attempts, queue=queue)
        backend.take(queue=queue)
    backend.clock.advance(LEASE_MS)
    assert sorted(backend.reap()) == [(QUEUE, 1, 1), ("thumbnails", 1, 0)]


def test_a_poison_job_ends_after_its_attempts(backend):
    descriptor = backend.put_one(attempts=3)
    for remaining in (3, 2, 1):
        assert [job.attempts_remaining for job in backend.take()] == [remaining]
        backend.clock.advance(LEASE_MS)
        backend.reap()
    assert backend.take() == []
    assert backend.state(descriptor) == FAILED


@pytest.mark.parametrize("finish", ["ack", "fail", "release", "back", "delete"])
def test_what_is_settled_does_not_expire(backend, finish):
    descriptor, _ = backend.started()
    {
        "ack": lambda: backend.ack(descriptor),
        "fail": lambda: backend.fail(descriptor),
        "release": lambda: backend.release_claims(QUEUE, "worker"),
        "back": lambda: backend.checkpoint(descriptor, move_to_pending=True),
        "delete": lambda: backend.delete(IN_PROGRESS),
    }[finish]()
    before = backend.look(descriptor)
    backend.clock.advance(LEASE_MS * 10)
    assert backend.reap() == []
    assert backend.look(descriptor) == before


# After a start of the server, holders get time to renew what expired while nobody was there to be told.


def test_while_the_server_is_young_claims_with_longer_leases_are_spared(backend):
    short, _ = backend.started(lease_ms=1000)
    long, _ = backend.started(lease_ms=60_000)
    backend.clock.advance(10**6)
    assert backend.reap(server_age_ms=999, quiet_ms=LEASE_MS) == []
    assert backend.reap(server_age_ms=1000, quiet_ms=LEASE_MS) == [(QUEUE, 1, 0)]
    assert backend.state(short) == PENDING
    assert backend.reap(server_age_ms=59_999, quiet_ms=LEASE_MS) == []
    assert backend.reap(server_age_ms=60_000, quiet_ms=LEASE_MS) == [(QUEUE, 1, 0)]
    assert backend.state(long) == PENDING


def test_the_quiet_period_ends_also_for_the_longest_leases(backend):
    backend.started(lease_ms=10**6)
    backend.clock.advance(10**7)
    assert backend.reap(server_age_ms=LEASE_MS - 1, quiet_ms=LEASE_MS) == []
    assert backend.reap(server_age_ms=LEASE_MS, quiet_ms=LEASE_MS) == [(QUEUE, 1, 0)]


def test_what_expires_after_the_age_of_the_server_was_known_is_spared(backend):
    """The server may have stood still before the store was asked, so that nobody could renew."""
    descriptor, _ = backend.started()
    asked_at = elapsed_seconds() - LEASE_MS / 1000
    backend.clock.advance(LEASE_MS + 500)
    assert backend.reap(asked_at=asked_at) == []
    assert backend.state(descriptor) == IN_PROGRESS
    assert backend.reap() == [(QUEUE, 1, 0)]


def test_a_crashed_server_finds_its_claims_and_ends_them_later(backend):
    descriptor, _ = backend.started(attempts=2)
    backend.crash()
    assert backend.state(descriptor) == IN_PROGRESS
    backend.clock.advance(LEASE_MS)
    assert backend.reap(server_age_ms=0) == []
    assert backend.reap() == [(QUEUE, 1, 0)]
    assert backend.take_names() == [descriptor]


def test_what_expires_after_the_call_was_made_is_spared(backend):
    """The server may have stood still between the call and its work."""
    descriptor, _ = backend.started()
    backend.clock.advance(LEASE_MS - 1)
    original, calls = backend.clock.now_ms, []

    def clock():
        calls.append(None)
        return original if len(calls) == 1 else original + 10_000

    backend.clock.read = clock
    assert backend.reap() == []
    backend.clock.read = None
    assert backend.state(descriptor) == IN_PROGRESS
    backend.clock.advance(1)
    assert backend.reap() == [(QUEUE, 1, 0)]

"""Release: everything that one source holds goes back, no attempt spent."""

import pytest

from pinlater.protocol.messages import PENDING
from tests.support.bench import LEASE_MS, QUEUE, new_job


def test_all_claims_of_the_source_go_back_with_all_attempts(backend):
    names = backend.put(*[new_job(attempts=1, priority=n % 3 + 1) for n in range(9)])
    before = [backend.look(name) for name in names]
    for _ in range(3):
        backend.take(3, source="shop:web1")
    now = backend.clock.advance(7)
    assert backend.release_claims(QUEUE, "shop:web1") == 9
    assert [backend.look(name) for name in names] == [record._replace(updated_at_ms=now) for record in before]
    assert len(backend.take()) == 9


def test_other_sources_keep_their_claims(backend):
    mine = backend.started(source="worker")[0]
    others = [backend.started(source=source)[0] for source in ("worker2", "work", "a:worker", "worker:a", "", "%")]
    assert backend.release_claims(QUEUE, "worker") == 1
    assert backend.state(mine) == PENDING
    assert backend.counts() == (1, len(others), 0, 0)


@pytest.mark.parametrize("source", ["", "%", "_%", "nobody"])
def test_a_source_that_holds_nothing(backend, source):
    backend.started(source="worker")
    assert backend.release_claims(QUEUE, source) == 0
    assert backend.counts() == (0, 1, 0, 0)


def test_a_released_claim_is_stale(backend):
    descriptor, claim = backend.started()
    backend.release_claims(QUEUE, "worker")
    backend.take()
    assert backend.ack(descriptor, claim=claim).stale == 1
    assert backend.fail(descriptor, claim=claim).stale == 1
    assert backend.checkpoint(descriptor, claim=claim).stale == 1


def test_a_released_claim_does_not_expire(backend):
    descriptor, _ = backend.started()
    backend.release_claims(QUEUE, "worker")
    backend.clock.advance(LEASE_MS * 10)
    assert backend.reap() == []
    assert backend.look(descriptor).attempts_remaining == 2


def test_a_released_job_keeps_its_place_in_line(backend):
    first = backend.put_one()
    backend.clock.advance(10)
    backend.put_one()
    assert backend.take_names(1) == [first]
    backend.release_claims(QUEUE, "worker")
    assert backend.take_names(1) == [first]

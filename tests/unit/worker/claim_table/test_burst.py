"""When a burst is over."""

import pytest

from pinlater.worker.claim_table.burst import Burst
from pinlater.worker.claim_table.exit_queue import ExitInfo
from pinlater.worker.claim_table.snapshot import Identity
from pinlater.worker.pools import JobPool
from pinlater.worker.shared import Shared


class Member:
    """A process of a burst, in a pool of its own."""

    def __init__(self, shared, queue):
        self.row = shared.row(f"jobs of {queue}", 0)
        self.row.register(Identity(f"worker:{queue}", [queue], []))
        self.burst = Burst(shared, self.row, ["a", "b"])

    def finds_nothing(self):
        self.burst.record_poll()
        self.burst.record_empty()

    def works(self):
        self.burst.record_work_begin()
        self.burst.record_work_end()


@pytest.fixture
def shared():
    return Shared.for_pools([JobPool("jobs of a", 1, {"a": 1}), JobPool("jobs of b", 1, {"b": 1})])


@pytest.fixture
def one(shared):
    return Member(shared, "a")


@pytest.fixture
def other(shared, one):
    return Member(shared, "b")


def test_a_burst_ends_when_all_processes_found_their_queues_empty(one, other):
    one.finds_nothing()
    assert not one.burst.is_over
    other.finds_nothing()
    assert other.burst.is_over
    assert one.burst.is_over


def test_a_burst_does_not_end_while_a_process_works(one, other):
    one.finds_nothing()
    other.finds_nothing()
    one.burst.record_work_begin()
    assert not other.burst.is_over


def test_an_empty_dequeue_before_other_work_ended_does_not_count(one, other):
    one.finds_nothing()
    other.works()
    other.finds_nothing()
    assert not other.burst.is_over
    one.finds_nothing()
    assert other.burst.is_over


def test_a_burst_does_not_end_before_each_queue_was_asked(shared, one):
    one.finds_nothing()
    assert not one.burst.is_over  # the pool of b is still booting
    Member(shared, "b").finds_nothing()
    assert one.burst.is_over


def test_a_burst_does_not_end_before_due_retries_were_dequeued(shared, one, other, monkeypatch):
    clock = [10_000_000_000]
    monkeypatch.setattr("pinlater.worker.claim_table.burst.monotonic_ns", lambda: clock[0])
    one.row.record_retry_due(20_000)
    one.finds_nothing()
    other.finds_nothing()
    assert not one.burst.is_over
    clock[0] = 20_000_000_001
    one.finds_nothing()
    assert not one.burst.is_over
    other.finds_nothing()
    assert one.burst.is_over


def test_not_before_the_keeper_has_recovered_the_jobs_of_a_dead_process(shared, one, other):
    other.row.acquire_area().write("claim", ["b:s1:p1:1"])
    area = other.row.copy()
    shared.exit_queue.post(ExitInfo(1, "killed", was_interrupted=False, died_ns=1, died_at=1.0), area)
    one.finds_nothing()
    other.finds_nothing()
    assert not one.burst.is_over
    [ended] = shared.exit_queue.pending()
    shared.exit_queue.remove(ended)
    assert one.burst.is_over


def test_the_work_of_one_that_is_gone_still_counts(one, other):
    one.finds_nothing()
    other.works()
    other.row.clear()
    other.row.register(Identity("worker:b2", ["b"], []))
    other.finds_nothing()
    assert not one.burst.is_over
    one.finds_nothing()
    assert one.burst.is_over


def test_what_was_decided_stays(one, other):
    one.finds_nothing()
    other.finds_nothing()
    assert one.burst.is_over
    one.works()
    other.row.clear()
    assert one.burst.is_over

"""What a job process tells of the attempts of its classes."""

import pytest

from pinlater.model.statistics import Spread, bucket_of
from pinlater.worker.claim_table.counters import RETURNED, SharedCounters
from pinlater.worker.session.run_reporter import INTERVAL_SECONDS, RunReporter


class Process:
    def __init__(self):
        self.now = 100.0
        self.is_known = True
        self.counters = SharedCounters(1).of_process(0)
        self.counters.register(["Mail", "Sms"])
        self.reporter = RunReporter(self.counters, lambda: self.is_known, lambda: self.now)

    def take(self):
        self.now += INTERVAL_SECONDS
        return {queue: {one.name: one for one in runs} for queue, runs in self.reporter.take().items()}


@pytest.fixture
def process():
    return Process()


def test_attempts_of_a_class_by_queue(process):
    for _ in range(3):
        process.counters.count_success("a", 0, 2_000_000)
    process.counters.count_ending("a", 0, "failed", 50_000_000)
    process.counters.count_ending("a", 0, "given_up", 50_000_000)
    process.counters.count_success("b", 1, 100)
    process.reporter.add_given_up("a", 0)
    process.reporter.add_wait("a", 0, 12)
    found = process.take()
    mail = found["a"]["Mail"]
    assert (mail.succeeded, mail.failed, mail.given_up) == (3, 2, 1)
    assert mail.run == Spread({bucket_of(2): 3, bucket_of(50): 2})
    assert mail.wait == Spread({bucket_of(12): 1})
    assert found["b"]["Sms"].succeeded == 1
    assert mail.is_valid


def test_a_job_that_runs_again_has_succeeded(process):
    process.counters.count_ending("a", 0, "rescheduled", 1000)
    assert process.take()["a"]["Mail"].succeeded == 1


def test_only_what_is_new_is_told(process):
    process.counters.count_success("a", 0, 1000)
    process.counters.count_success("a", 1, 1000)
    process.take()
    assert process.take() == {}
    process.counters.count_success("a", 0, 1000)
    assert {name: one.succeeded for name, one in process.take()["a"].items()} == {"Mail": 1}


def test_it_is_told_every_few_seconds_or_when_the_process_ends(process):
    process.counters.count_success("a", 0, 1000)
    assert process.reporter.take() == {}
    process.reporter.make_due()
    assert list(process.reporter.take()) == ["a"]


def test_servers_that_are_not_ours_are_told_nothing(process):
    process.is_known = False
    process.counters.count_success("a", 0, 1000)
    assert process.take() == {}
    process.is_known = True
    assert list(process.take()) == ["a"]


def test_what_is_counted_of_a_queue_alone_is_not_told(process):
    process.counters.count_event("a", RETURNED, 3)
    assert process.take() == {}

"""Jobs that a worker cannot read: given back unspent at growing intervals, told of, and given up after days."""

import pytest

from pinlater.client.unknown_classes import by_class, unknown_classes
from pinlater.errors import BodyInvalid, EnqueueRejected
from pinlater.model.body_metadata import read_unreadable_mark
from pinlater.model.workers import UnknownJobs as Told
from pinlater.model.workers import WorkerReport
from pinlater.protocol.conversion.workers import WORKER
from pinlater.protocol.operations import Calls
from pinlater.worker.claim_table.counters import MISMATCH, NO_QUEUE, UNKNOWN
from pinlater.worker.claim_table.snapshot import Identity
from pinlater.worker.keeper import unknown_watch as watch_module
from pinlater.worker.keeper.report import build_report
from pinlater.worker.keeper.unknown_watch import RECENT_SECONDS, UnknownWatch
from pinlater.worker.pools import JobPool
from pinlater.worker.running.unknown import UnknownJobPolicy, label_of
from pinlater.worker.session.ack_buffer import AckBuffer
from pinlater.worker.session.outcome import Failure, ReleasedUnknown
from pinlater.worker.shared import Shared
from tests.unit.worker.fakes import FakePipeline, batch_of, new_row

DAY_MS = 86_400_000
BEGIN_MS = 1_700_000_000_000
NEW = b'{"job":"New","number":7}'


def given(body=NEW, *, run_after_ms=2000, created_ms=1000):
    batch = batch_of("mail:s1:p1:7", bodies=[body], row=new_row(), created_ms=created_ms)
    batch.metadata[0].runAfterTimestampMillis = run_after_ms
    return batch


def outcome_of(body=NEW, now_ms=BEGIN_MS, days=3, why="no job class is named 'New' here", **about):
    unknown = UnknownJobPolicy(None if days is None else days * 86400.0, chance=lambda: 0.5)
    return unknown.outcome(given(body, **about), 0, BodyInvalid(why), now_ms)


def test_it_goes_back_with_no_attempt_spent_and_its_status_says_why():
    outcome = outcome_of()
    assert isinstance(outcome, ReleasedUnknown)
    assert (outcome.attempts, outcome.run_after_ms, outcome.ending) == (None, BEGIN_MS + 1000, UNKNOWN)
    assert "no worker knows it: no job class is named 'New' here" in outcome.status
    unread = read_unreadable_mark(outcome.body)
    assert (unread.since_ms, unread.until_ms) == (BEGIN_MS, BEGIN_MS + 1000)
    assert outcome.body.startswith(NEW[:-1])


def test_the_delays_grow_to_minutes_and_it_fails_after_days():
    body, now_ms, run_after_ms, delays = NEW, BEGIN_MS, 2000, []
    while isinstance(outcome := outcome_of(body, now_ms, run_after_ms=run_after_ms), ReleasedUnknown):
        body, run_after_ms = outcome.body, outcome.run_after_ms
        assert bool(outcome.status) == (not delays), "told once"
        delays.append((run_after_ms - now_ms) / 1000)
        now_ms = run_after_ms
    assert delays == sorted(delays)
    assert (delays[0], delays[-1]) == (1.0, 300.0)
    assert len(delays) < 1000
    assert 3 * DAY_MS <= now_ms - BEGIN_MS < 3 * DAY_MS + 400_000
    assert isinstance(outcome, Failure)
    assert outcome.delay_ms is None
    assert "no job class is named 'New' here" in outcome.status


def test_its_status_has_each_reason_once_and_only_the_first_few():
    body, now_ms, run_after_ms, told = NEW, BEGIN_MS, 2000, []
    for why in ["no class", "no class", "no field a", "no class", *(f"no field {number}" for number in range(9))]:
        outcome = outcome_of(body, now_ms, run_after_ms=run_after_ms, why=why)
        body, now_ms, run_after_ms = outcome.body, outcome.run_after_ms, outcome.run_after_ms
        told += [why] if why in outcome.status else []
    assert told == ["no class", "no field a", "no field 0", "no field 1"]


def test_a_mark_of_an_older_worker_adds_nothing_to_the_status():
    older = b'{"job":"New","number":7,"$unread":{"since_ms":1000,"until_ms":2000}}'
    assert not outcome_of(older, 2000, run_after_ms=2000).status


def test_the_delays_are_spread():
    unknown = UnknownJobPolicy(60.0, chance=iter([0.0, 1.0]).__next__)
    outcomes = [unknown.outcome(given(), 0, BodyInvalid("no"), BEGIN_MS) for _ in range(2)]
    assert [outcome.run_after_ms - BEGIN_MS for outcome in outcomes] == [750, 1250]


def test_one_that_was_retried_or_moved_since_has_all_its_days_again():
    marked = outcome_of().body
    assert isinstance(outcome_of(marked, BEGIN_MS + 4 * DAY_MS, run_after_ms=BEGIN_MS + 1000), Failure)
    again = outcome_of(marked, BEGIN_MS + 4 * DAY_MS, run_after_ms=BEGIN_MS + 4 * DAY_MS)
    assert read_unreadable_mark(again.body).since_ms == BEGIN_MS + 4 * DAY_MS


@pytest.mark.parametrize("body", [b"\xff\x00", b"[1]", b'{"job":"New","text":"' + b"x" * 70_000 + b'"}'])
def test_a_body_without_room_for_the_time_is_left_as_it_is_and_counts_from_its_enqueue(body):
    outcome = outcome_of(body, created_ms=BEGIN_MS - 20_000)
    assert (outcome.body, outcome.run_after_ms) == (None, BEGIN_MS + 10_000)
    assert isinstance(outcome_of(body, created_ms=BEGIN_MS - 3 * DAY_MS), Failure)


def test_it_may_fail_at_once():
    assert outcome_of(days=0).delay_ms is None
    strict = outcome_of(days=None)
    assert strict.delay_ms > 0


def test_nonsense_that_somebody_wrote_there_harms_nobody():
    for mark in (b"5", b"[]", b'{"since_ms":"x"}', b'{"since_ms":-1,"until_ms":2000}'):
        outcome = outcome_of(b'{"job":"New","$unread":' + mark + b"}", now_ms=BEGIN_MS)
        assert outcome is not None


def test_only_names_that_can_be_shown_are_counted():
    assert label_of(NEW) == "New"
    for body in (b"no job", b'{"job":""}', b'{"job":"a\\nb"}', b'{"job":"' + b"x" * 101 + b'"}'):
        assert label_of(body) == "(unreadable)"


def test_one_line_says_so_for_all_jobs_of_a_class(caplog):
    unknown = UnknownJobPolicy(60.0)
    for _ in range(5):
        unknown.outcome(given(), 0, BodyInvalid("the reason"), BEGIN_MS)
    unknown.outcome(given(b'{"job":"Newer"}'), 0, BodyInvalid("the reason"), BEGIN_MS)
    assert ["the reason" in record.getMessage() for record in caplog.records] == [True, True]


def test_a_server_that_takes_no_larger_body_gets_it_back_without():
    pipeline = FakePipeline()
    ack_buffer = AckBuffer(pipeline, Calls("worker:me", is_plain=True), lambda _: None)
    ack_buffer.release(given(), [0], outcome_of())
    ack_buffer.flush()
    pipeline.answer(EnqueueRejected("too large"))
    [request] = pipeline.last.requests
    assert (request.newBody, request.runAfterTimestampMillis) == (None, BEGIN_MS + 1000)
    pipeline.answer()
    assert ack_buffer.is_empty


# Who tells of them


def worker_of_one_process():
    """Return the memory of a worker, and the counters of its process."""
    shared = Shared.for_pools([JobPool()])
    shared.row("jobs", 0).register(Identity("worker:first"))
    return shared, shared.process_counters("jobs", 0)


def test_a_worker_reports_what_it_has_met_with_of_late(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(watch_module.time, "time", lambda: now)
    shared, counters = worker_of_one_process()
    watch = UnknownWatch(shared)
    counters.register(["Known"])
    counters.count_success("mail", 0, 1000)
    assert watch.recent() == ([], [], [])
    counters.count_ending_of("mail", "New", UNKNOWN, 10)
    counters.count_ending_of("mail", "New", UNKNOWN, 10)
    assert watch.recent().unknown == [Told("mail", "New", 2, 1_000_000, 1_000_000)]
    now += RECENT_SECONDS - 1
    shared.counters.retire(0)  # its process has ended; the next one begins at 0
    shared.row("jobs", 0).register(Identity("worker:second"))
    counters.clear()
    assert watch.recent().unknown == [Told("mail", "New", 2, 1_000_000, 1_000_000)]
    counters.count_ending_of("mail", "New", UNKNOWN, 10)
    assert watch.recent().unknown == [Told("mail", "New", 3, int(now * 1000), 1_000_000)]
    now += RECENT_SECONDS
    assert watch.recent() == ([], [], [])


def test_what_was_met_with_before_a_reload_is_not_reported_after_it():
    shared, counters = worker_of_one_process()
    counters.count_ending_of("mail", "New", UNKNOWN, 10)
    watch = UnknownWatch(shared)  # of the keeper that the reload has started; the new code may know the class
    assert watch.recent() == ([], [], [])
    counters.count_ending_of("mail", "New", UNKNOWN, 10)
    assert [told.returned for told in watch.recent().unknown] == [1]


def test_what_old_processes_give_back_after_a_reload_is_not_reported():
    shared = Shared.for_pools([JobPool()])
    for number in range(2):
        shared.row("jobs", number).register(Identity(f"worker:{number}", generation=number))
    watch = UnknownWatch(shared, generation=1)
    watch.recent()
    shared.process_counters("jobs", 0).count_ending_of("mail", "New", UNKNOWN, 10)
    assert watch.recent() == ([], [], [])
    shared.process_counters("jobs", 1).count_ending_of("mail", "New", UNKNOWN, 10)
    assert [told.returned for told in watch.recent().unknown] == [1]


def test_jobs_whose_steps_do_not_fit_are_reported_with_the_time_since_when(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(watch_module.time, "time", lambda: now)
    shared, counters = worker_of_one_process()
    watch = UnknownWatch(shared)
    watch.recent()
    for _ in range(3):
        counters.count_ending_of("mail", "Order", MISMATCH, 10)
        last = watch.recent()
        now += RECENT_SECONDS - 1
    assert last == ([], [Told("mail", "Order", 3, 2_198_000, 1_000_000)], [])
    now += 1
    assert watch.recent() == ([], [], [])


def test_jobs_that_miss_a_queue_are_reported():
    shared = Shared.for_pools([JobPool()])
    shared.row("jobs", 0).register(Identity("worker:first"))
    watch = UnknownWatch(shared)
    watch.recent()
    shared.process_counters("jobs", 0).count_ending_of("mail", "Follows", NO_QUEUE, 10)
    [told] = watch.recent().queueless
    assert told[:3] == ("mail", "Follows", 1)
    report = build_report(shared, *watch.recent())
    assert (report.unknown, report.unfitting, report.queueless) == ([], [], [told])
    assert list(WORKER.record(WORKER.struct(report)).queueless) == [told]


def test_a_worker_says_that_no_process_can_start():
    shared = Shared.for_pools([JobPool()])
    reports = [build_report(shared)]
    shared.error_token.acquire()
    reports.append(build_report(shared))
    assert [WORKER.record(WORKER.struct(report)).cannot_start for report in reports] == [False, True]


def test_the_end_of_a_process_hides_nothing_that_another_one_has_met_with():
    shared = Shared.for_pools([JobPool()])
    watch = UnknownWatch(shared)
    watch.recent()
    for number in range(2):
        shared.row("jobs", number).register(Identity(f"worker:{number}"))
    for _ in range(5):
        shared.process_counters("jobs", 0).count_ending_of("mail", "New", UNKNOWN, 10)
    assert [told.returned for told in watch.recent().unknown] == [5]
    shared.counters.retire(0)
    shared.row("jobs", 0).clear()
    shared.process_counters("jobs", 1).count_ending_of("mail", "New", UNKNOWN, 10)
    assert [told.returned for told in watch.recent().unknown] == [6]


def test_the_reports_of_all_workers_are_put_together():
    reports = [
        WorkerReport("a", "web1", unknown=[Told("mail", "New", 2, 1000), Told("ads", "Newer", 1, 5)]),
        WorkerReport("b", "web2", unknown=[Told("mail", "New", 3, 2000)]),
        WorkerReport("c", "web3", unfitting=[Told("mail", "Order", 1, 10, 5)]),
        WorkerReport("d", "web4", unfitting=[Told("mail", "Order", 2, 20, 4), Told("mail", "Old", 1, 30)]),
    ]
    unfitting = by_class(jobs for report in reports for jobs in report.unfitting)
    assert unfitting == [Told("mail", "Old", 1, 30), Told("mail", "Order", 3, 20, 4)]
    assert unknown_classes(reports) == [Told("ads", "Newer", 1, 5), Told("mail", "New", 5, 2000)]
    assert unknown_classes(reports, "ads") == [Told("ads", "Newer", 1, 5)]

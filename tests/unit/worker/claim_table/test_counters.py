"""Figures of a worker: counted in shared memory, shown as Prometheus reads them."""

import os
import signal
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pinlater.worker.claim_table.counters import ENDINGS, EVENTS, MOST_ROWS, Tally, bucket_seconds
from pinlater.worker.claim_table.snapshot import RUNNING, Identity
from pinlater.worker.figures import Figures, reason_of
from pinlater.worker.pools import JobPool
from pinlater.worker.shared import Shared


def ended(**about):
    return SimpleNamespace(
        **{"pool": "jobs", "slot": 0, "killed_by_master": None, "stopping": False, "signal": None, "is_clean": True}
        | about
    )


@pytest.fixture
def shared():
    return Shared.for_pools([JobPool()])


def samples(figures):
    families = text_string_to_metric_families(figures.page().decode())
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value for family in families for sample in family.samples
    }


def jobs(tally, numbers=(0,)):
    return {
        name: {ending: number for ending, number in counts.endings.items() if number}
        for (queue, name), counts in tally.counts(numbers).items()
        if queue == "q"
    }


def test_every_ending_is_counted_once():
    tally = Tally(2)
    sheet = tally.sheet(0)
    sheet.introduce(["A", "B"])
    for _ in range(5):
        sheet.note("q", 0, 1_000_000)
    for ending in ENDINGS[1:]:
        sheet.note_other("q", 1, ending, 2_000_000)
    assert jobs(tally) == {"A": {"succeeded": 5}, "B": dict.fromkeys(ENDINGS[1:], 1)}
    counts = tally.counts([0])
    assert counts["q", "A"].seconds == pytest.approx(0.005)
    assert (sum(counts["q", "A"].buckets), sum(counts["q", "B"].buckets)) == (5, len(ENDINGS) - 1)


@pytest.mark.parametrize("nanoseconds", [0, 1, 999, 1_000_000, 10**9, 10**12, 10**15])
def test_a_run_is_in_the_bucket_with_its_time(nanoseconds):
    tally = Tally(1)
    sheet = tally.sheet(0)
    sheet.introduce(["A"])
    sheet.note("q", 0, nanoseconds)
    [bucket] = [bucket for bucket, number in enumerate(tally.counts([0])["q", "A"].buckets) if number]
    lower = bucket_seconds(bucket - 1) if bucket else 0.0
    assert lower <= nanoseconds / 1e9 < bucket_seconds(bucket)


def test_nothing_is_counted_down_when_processes_come_and_go_with_other_classes():
    tally = Tally(1)
    first = tally.sheet(0)
    first.introduce(["A", "B"])
    first.note("q", 1, 10)
    tally.fold(0)
    assert jobs(tally) == {"B": {"succeeded": 1}}
    second = tally.sheet(0)
    second.introduce(["B", "C"])
    second.note("q", 0, 10)
    second.note_other("q", 1, "failed", 10)
    assert jobs(tally) == {"B": {"succeeded": 2}, "C": {"failed": 1}}
    tally.fold(0)
    tally.fold(0)
    assert jobs(tally) == {"B": {"succeeded": 2}, "C": {"failed": 1}}


def test_a_forked_process_counts_for_the_master_and_a_new_keeper_goes_on():
    tally = Tally(1)
    for name in ("A", "B"):
        pid = os.fork()
        if pid == 0:
            tally.keeper.reopen()
            tally.keeper.note_named("q", "A", "crashed", 5)
            tally.keeper.note_named("q", name, "poison", 5)
            os._exit(0)
        os.waitpid(pid, 0)
    assert jobs(tally) == {"A": {"crashed": 2, "poison": 1}, "B": {"poison": 1}}


def test_too_many_rows_share_the_last_one_and_long_names_are_cut():
    tally = Tally(1)
    sheet = tally.sheet(0)
    sheet.introduce([f"{'é' * 200}{number}" for number in range(MOST_ROWS + 10)])
    for kind in range(MOST_ROWS + 10):
        sheet.note("q", kind, 1)
    sheet.note_other("q", MOST_ROWS + 6, "failed", 1)
    sheet.note_event("q", EVENTS[0], 1)
    counts = tally.counts([0])
    assert sum(counts["(other)", "(other)"].buckets) == 12
    assert sum(counts["(other)", "(other)"].endings.values()) == 12
    assert sheet.ended == sum(sum(each.buckets) for each in counts.values()) == MOST_ROWS + 11


def test_queues_are_counted_apart_and_so_is_what_has_no_class():
    tally = Tally(1)
    sheet = tally.sheet(0)
    sheet.introduce(["A"])
    sheet.note("p", 0, 1)
    sheet.note("q", 0, 1)
    sheet.note_other("q", 0, "failed", 1)
    for number, event in enumerate(EVENTS, 1):
        sheet.note_event("q", event, number)
    counts = tally.counts([0])
    assert counts.keys() == {("p", "A"), ("q", "A"), ("q", "")}
    assert [counts["q", "A"].endings[name] for name in ("succeeded", "failed")] == [1, 1]
    assert counts["q", ""].events == {event: number for number, event in enumerate(EVENTS, 1)}
    assert sheet.ended == 3
    tally.fold(0)
    following = tally.sheet(0)
    assert following.ended == 0
    following.introduce(["A"])
    following.note("p", 0, 1)
    assert tally.counts([0])["p", "A"].endings["succeeded"] == 2


def test_the_page(shared):
    figures = Figures(shared)
    slot = shared.slot("jobs", 0)
    slot.introduce(Identity("me", ["q", "idle"], ['Odd"\\\nname'], 1))
    area = slot.free_batch()
    area.hold("claim", ["q:s1:p1:1", "q:s1:p1:2"])
    area.states[0] = RUNNING
    sheet = shared.sheet("jobs", 0)
    sheet.introduce(['Odd"\\\nname'])
    sheet.note("q", 0, 3_000_000_000)
    sheet.note_other("q", 0, "retried", 1_000)
    for number, event in enumerate(EVENTS, 1):
        sheet.note_event("q", event, number)
    figures.note_exit(ended(killed_by_master="memory ceiling"))
    found = samples(figures)
    name = 'Odd"\\\nname'
    assert found["pinlater_worker_jobs_total", name, "q", "succeeded"] == 1
    assert found["pinlater_worker_jobs_total", name, "q", "retried"] == 1
    assert found["pinlater_worker_job_seconds_sum", name, "q"] == pytest.approx(3.000001)
    assert found["pinlater_worker_job_seconds_count", name, "q"] == 2
    assert found["pinlater_worker_job_seconds_bucket", "+Inf", name, "q"] == 2
    assert sum(value == 1 for key, value in found.items() if key[0].endswith("_bucket")) >= 3
    assert found["pinlater_worker_jobs_running", "jobs", "q"] == 1
    assert found["pinlater_worker_jobs_running", "idle", "jobs"] == 0
    assert found["pinlater_worker_process_exits_total", "jobs", "memory_ceiling"] == 1
    events = ["checkpoints", "checkpoints_lost", "jobs_returned", "acks_lost"]
    assert [found[f"pinlater_worker_{event}_total", "q"] for event in events] == [1, 2, 3, 4]
    assert [found[f"pinlater_worker_{event}_total", "idle"] for event in events] == [0, 0, 0, 0]


def test_what_alerts_watch_begins_at_zero(shared):
    shared.slot("jobs", 0).introduce(Identity("me", ["q"], ["A"], 1))
    sheet = shared.sheet("jobs", 0)
    sheet.introduce(["A"])
    sheet.note("q", 0, 1)
    found = samples(Figures(shared))
    jobs_total = {key: value for key, value in found.items() if key[0] == "pinlater_worker_jobs_total"}
    assert jobs_total == {
        ("pinlater_worker_jobs_total", "A", "q", "succeeded"): 1,
        ("pinlater_worker_jobs_total", "A", "crashed", "q"): 0,
        ("pinlater_worker_jobs_total", "A", "poison", "q"): 0,
        ("pinlater_worker_jobs_total", "A", "q", "tick_failed"): 0,
    }


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        ({}, "done"),
        ({"stopping": True}, "stopped"),
        ({"is_clean": False}, "failed"),
        ({"is_clean": False, "signal": signal.SIGSEGV}, "signal"),
        ({"killed_by_master": "time-out", "signal": signal.SIGKILL, "is_clean": False}, "time_out"),
    ],
)
def test_reasons_are_few(about, reason):
    assert reason_of(ended(**about)) == reason

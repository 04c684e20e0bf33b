"""Figures of a worker: counted in shared memory, shown as Prometheus reads them."""

import os
import signal
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pinlater.model.statistics import BOUNDS_MS
from pinlater.worker.claim_table.counters import ENDINGS, EVENTS, MOST_ROWS, SharedCounters, bucket_seconds
from pinlater.worker.claim_table.snapshot import RUNNING, Identity
from pinlater.worker.metrics import WorkerMetrics, reason_of
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


def samples(metrics):
    families = text_string_to_metric_families(metrics.page().decode())
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value for family in families for sample in family.samples
    }


def jobs(counters, numbers=(0,)):
    return {
        name: {ending: number for ending, number in counts.endings.items() if number}
        for (queue, name), counts in counters.counts(numbers).items()
        if queue == "q"
    }


def test_every_ending_is_counted_once():
    counters = SharedCounters(2)
    process = counters.of_process(0)
    process.register(["A", "B"])
    for _ in range(5):
        process.count_success("q", 0, 1_000_000)
    for ending in ENDINGS[1:]:
        process.count_ending("q", 1, ending, 2_000_000)
    assert jobs(counters) == {"A": {"succeeded": 5}, "B": dict.fromkeys(ENDINGS[1:], 1)}
    counts = counters.counts([0])
    assert counts["q", "A"].seconds == pytest.approx(0.005)
    assert (sum(counts["q", "A"].buckets), sum(counts["q", "B"].buckets)) == (5, len(ENDINGS) - 1)


@pytest.mark.parametrize("nanoseconds", [0, 1, 999, 1_000_000, 1_000_001, 10**9, 10**12, 10**14])
def test_a_run_is_in_the_bucket_with_its_time(nanoseconds):
    counters = SharedCounters(1)
    process = counters.of_process(0)
    process.register(["A"])
    process.count_success("q", 0, nanoseconds)
    [bucket] = [bucket for bucket, number in enumerate(counters.counts([0])["q", "A"].buckets) if number]
    lower = bucket_seconds(bucket - 1) if bucket else -1.0
    assert lower < nanoseconds / 1e9 <= bucket_seconds(bucket)


def test_successes_and_failures_have_the_same_buckets():
    counters = SharedCounters(1)
    process = counters.of_process(0)
    process.register(["A", "B"])
    bounds = [round(bound * 1e6) for bound in BOUNDS_MS]
    times = [0, *(bound + more for bound in bounds for more in (-1, 0, 1)), *(2**bits for bits in range(60))]
    for nanoseconds in times:
        process.count_success("q", 0, nanoseconds)
        process.count_ending("q", 1, "failed", nanoseconds)
    counts = counters.counts([0])
    assert counts["q", "A"].buckets == counts["q", "B"].buckets
    assert min(counts["q", "A"].buckets) > 0


def test_nothing_is_counted_down_when_processes_come_and_go_with_other_classes():
    counters = SharedCounters(1)
    first = counters.of_process(0)
    first.register(["A", "B"])
    first.count_success("q", 1, 10)
    counters.retire(0)
    assert jobs(counters) == {"B": {"succeeded": 1}}
    second = counters.of_process(0)
    second.register(["B", "C"])
    second.count_success("q", 0, 10)
    second.count_ending("q", 1, "failed", 10)
    assert jobs(counters) == {"B": {"succeeded": 2}, "C": {"failed": 1}}
    counters.retire(0)
    counters.retire(0)
    assert jobs(counters) == {"B": {"succeeded": 2}, "C": {"failed": 1}}


def test_a_forked_process_counts_for_the_master_and_a_new_keeper_goes_on():
    counters = SharedCounters(1)
    for name in ("A", "B"):
        pid = os.fork()
        if pid == 0:
            counters.keeper.load_rows()
            counters.keeper.count_ending_of("q", "A", "crashed", 5)
            counters.keeper.count_ending_of("q", name, "poison", 5)
            os._exit(0)
        os.waitpid(pid, 0)
    assert jobs(counters) == {"A": {"crashed": 2, "poison": 1}, "B": {"poison": 1}}


def test_too_many_rows_share_the_last_one_and_long_names_are_cut():
    counters = SharedCounters(1)
    process = counters.of_process(0)
    process.register([f"{'é' * 200}{number}" for number in range(MOST_ROWS + 10)])
    for kind in range(MOST_ROWS + 10):
        process.count_success("q", kind, 1)
    process.count_ending("q", MOST_ROWS + 6, "failed", 1)
    process.count_event("q", EVENTS[0], 1)
    counts = counters.counts([0])
    assert sum(counts["(other)", "(other)"].buckets) == 12
    assert sum(counts["(other)", "(other)"].endings.values()) == 12
    assert process.ended_runs == sum(sum(each.buckets) for each in counts.values()) == MOST_ROWS + 11


def test_queues_are_counted_apart_and_so_is_what_has_no_class():
    counters = SharedCounters(1)
    process = counters.of_process(0)
    process.register(["A"])
    process.count_success("p", 0, 1)
    process.count_success("q", 0, 1)
    process.count_ending("q", 0, "failed", 1)
    for number, event in enumerate(EVENTS, 1):
        process.count_event("q", event, number)
    counts = counters.counts([0])
    assert counts.keys() == {("p", "A"), ("q", "A"), ("q", "")}
    assert [counts["q", "A"].endings[name] for name in ("succeeded", "failed")] == [1, 1]
    assert counts["q", ""].events == {event: number for number, event in enumerate(EVENTS, 1)}
    assert process.ended_runs == 3
    counters.retire(0)
    following = counters.of_process(0)
    assert following.ended_runs == 0
    following.register(["A"])
    following.count_success("p", 0, 1)
    assert counters.counts([0])["p", "A"].endings["succeeded"] == 2


def test_the_page(shared):
    metrics = WorkerMetrics(shared)
    row = shared.row("jobs", 0)
    row.register(Identity("me", ["q", "idle"], ['Odd"\\\nname'], 1))
    area = row.acquire_area()
    area.write("claim", ["q:s1:p1:1", "q:s1:p1:2"])
    area.states[0] = RUNNING
    process = shared.process_counters("jobs", 0)
    process.register(['Odd"\\\nname'])
    process.count_success("q", 0, 3_000_000_000)
    process.count_ending("q", 0, "retried", 1_000)
    for number, event in enumerate(EVENTS, 1):
        process.count_event("q", event, number)
    metrics.count_exit(ended(killed_by_master="memory ceiling"))
    found = samples(metrics)
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
    shared.row("jobs", 0).register(Identity("me", ["q"], ["A"], 1))
    process = shared.process_counters("jobs", 0)
    process.register(["A"])
    process.count_success("q", 0, 1)
    found = samples(WorkerMetrics(shared))
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

"""Metrics: counters, percentiles, and both pages."""

import math
import os
import random

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pinlater.server.metrics import Metrics, render_ostrich, render_prometheus
from pinlater.server.metrics.families import Distribution, MetricInfo, bounds
from pinlater.server.metrics.percentiles import percentile


@pytest.fixture
def metrics():
    return Metrics()


def ostrich(metrics):
    """Return the page's rows, ``section/name`` -> value."""
    rows, section = {}, ""
    for line in render_ostrich(metrics.snapshot()).splitlines():
        if line.startswith("  "):
            name, value = line[2:].split(": ", 1)
            rows[f"{section}/{name}"] = value
        else:
            section = line.removesuffix(":")
    return rows


def prometheus(metrics):
    """Return the page's samples, (name, labels) -> value, as Prometheus' own parser reads them."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(render_prometheus(metrics.snapshot()))
        for sample in family.samples
    }


def test_counters_have_the_original_names(metrics):
    metrics.jobs_enqueued.add("pins", 3)
    metrics.jobs_enqueued.add("pins")
    metrics.acks_failed.add("pins", 2)
    metrics.checkpoint_noops.add("pins")
    metrics.dequeues_rate_limited.add("pins")
    metrics.timeouts_retried.add("pins")
    metrics.failed_collected.add("pins", 9)
    metrics.errors.add(("enqueueJobs", "QUEUE_NOT_FOUND"))
    rows = ostrich(metrics)
    assert rows["counters/pins_enqueue"] == "4"
    assert rows["counters/pins_ack_failed"] == "2"
    assert rows["counters/pins_checkpoint_noop"] == "1"
    assert rows["counters/pins_dequeue_requests_rate_limited"] == "1"
    assert rows["counters/pins_timeout_retry"] == "1"
    assert rows["counters/pins_failed_gc"] == "9"
    assert rows["counters/PinLater.enqueueJobs.errors.QUEUE_NOT_FOUND"] == "1"
    assert metrics.jobs_enqueued.value("pins") == 4
    assert metrics.jobs_enqueued.value("other") == 0


def test_the_ostrich_page_has_its_form(metrics):
    metrics.call_seconds.observe("lookupJobs", 0.25)
    metrics.connections.source = lambda: 7
    page = render_ostrich(metrics.snapshot())
    assert page == (
        "counters:\n  claims-undone: 0\n  commits-failed: 0\n"
        "  connections-opened: 0\n  connections-refused: 0\n  frames-refused: 0\n"
        "  handshakes-failed: 0\n"
        "gauges:\n  connections: 7\n"
        "labels:\n"
        "metrics:\n"
        "  PinLaterService.lookupJobs_msec: (average=250, count=1, maximum=250, minimum=250, p50=250, p90=250, "
        "p95=250, p99=250, p999=250, p9999=250, sum=250)\n"
    )


def test_body_sizes_are_shown_by_queue_and_in_total(metrics):
    metrics.job_body_bytes.observe("a", 30)
    metrics.job_body_bytes.observe("a", 15, times=2)
    metrics.job_body_bytes.observe("b", 80)
    rows = ostrich(metrics)
    assert rows["metrics/job_body_size_a"].startswith("(average=20, count=3, maximum=30, minimum=15,")
    assert rows["metrics/job_body_size_b"].startswith("(average=80, count=1,")
    assert rows["metrics/job-body-size"].startswith("(average=35, count=4, maximum=80, minimum=15,")
    assert rows["metrics/job-body-size"].endswith("sum=140)")


def test_delays_are_milliseconds_for_ostrich_and_seconds_for_prometheus(metrics):
    metrics.dequeue_delay_ms.observe("a", 1500)
    metrics.call_seconds.observe("ackDequeuedJobs", 1.5)
    assert "sum=1500)" in ostrich(metrics)["metrics/a_dequeue_delay_ms"]
    assert "sum=1500)" in ostrich(metrics)["metrics/PinLaterService.ackDequeuedJobs_msec"]
    samples = prometheus(metrics)
    assert samples["pinlater_dequeue_delay_seconds_sum", "a"] == 1.5
    assert samples["pinlater_call_seconds_sum", "ackDequeuedJobs"] == 1.5


def test_the_prometheus_page_is_read_by_its_parser(metrics):
    metrics.jobs_dequeued.add("a", 5)
    metrics.errors.add(("getJobCount", "UNKNOWN"), 2)
    metrics.store_waiting.source = lambda: 4
    metrics.unhealthy_shards.source = lambda: 2
    for size in (1, 1, 2, 5000, 20000):
        metrics.commit_requests.observe((), size)
    samples = prometheus(metrics)
    assert samples["pinlater_jobs_dequeued_total", "a"] == 5
    assert samples["pinlater_errors_total", "UNKNOWN", "getJobCount"] == 2
    assert samples["pinlater_store_waiting",] == 4
    assert samples["pinlater_ill_shards",] == 2
    assert samples["pinlater_connections_opened_total",] == 0
    buckets = {key[1]: value for key, value in samples.items() if key[0] == "pinlater_commit_requests_bucket"}
    assert (buckets["1"], buckets["2.2"], buckets["10000"], buckets["+Inf"]) == (2, 3, 4, 5)
    assert samples["pinlater_commit_requests_count",] == 5
    assert ("pinlater_connections",) not in samples


def test_the_processes_themselves_are_measured_together(metrics):
    def samples(*pids):
        page = render_prometheus(metrics.snapshot(), pids)
        return {sample.name: sample.value for part in text_string_to_metric_families(page) for sample in part.samples}

    one, two = samples(os.getpid()), samples(os.getpid(), os.getpid())
    assert one["process_resident_memory_bytes"] > 1_000_000
    assert one["process_open_fds"] > 2
    assert one["process_cpu_seconds_total"] > 0
    assert two["process_open_fds"] > 1.5 * one["process_open_fds"]
    assert two["process_start_time_seconds"] == one["process_start_time_seconds"]
    assert "process_open_fds" not in samples()


def test_a_deleted_queue_is_forgotten(metrics):
    metrics.jobs_enqueued.add("gone")
    metrics.job_body_bytes.observe("gone", 1)
    metrics.errors.add(("createQueue", "gone"))
    metrics.forget_queue("gone")
    metrics.forget_queue("never-there")
    assert metrics.jobs_enqueued.value("gone") == 0
    assert metrics.job_body_bytes.count("gone") == 0
    assert metrics.errors.value(("createQueue", "gone")) == 1


def test_a_snapshot_stays_as_it_was(metrics):
    metrics.jobs_enqueued.add("a")
    metrics.call_seconds.observe("m", 1)
    snapshot = metrics.snapshot()
    before = render_ostrich(snapshot)
    metrics.jobs_enqueued.add("a")
    metrics.call_seconds.observe("m", 2)
    assert render_ostrich(snapshot) == before


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000])
def test_a_value_is_in_whatever_is_read_after_it(count):
    def observed():
        distribution = Distribution(MetricInfo(name="x", help="", labels=("queue",), ostrich="x"), bounds(0, 4))
        for value in range(1, count + 1):
            distribution.observe("a", float(value))
        distribution.observe("b", 5.0, 3)
        return distribution

    assert observed().count("a") == sum(observed().counts("a")) == count
    assert observed().labels() == {"a", "b"}
    series = observed().snapshot().series
    assert (series["a"].count, series["a"].minimum, series["a"].maximum) == (count, 1.0, float(count))
    assert series["a"].sum == sum(range(1, count + 1))
    assert (series["b"].count, series["b"].sum) == (3, 15.0)
    forgotten = observed()
    forgotten.forget("a")
    assert (forgotten.labels(), forgotten.count("a"), forgotten.counts("a")) == ({"b"}, 0, [])


def measured(values):
    distribution = Distribution(MetricInfo(name="x", help="", ostrich="x"), bounds(0, 4))
    for value in values:
        distribution.observe((), value)
    snapshot = distribution.snapshot()
    return snapshot.series[()], snapshot.bounds


@pytest.mark.parametrize("share", [0.5, 0.9, 0.95, 0.99, 0.999])
def test_percentiles_are_right_to_about_a_tenth(share):
    chance = random.Random(7)
    values = sorted(chance.lognormvariate(5, 1) for _ in range(20_000))
    series, upper = measured(values)
    assert percentile(series, upper, share) == pytest.approx(values[math.ceil(share * len(values)) - 1], rel=0.1)


@pytest.mark.parametrize("value", [0, 0.3, 1, 3.14, 10_000, 123_456])
def test_percentiles_of_equal_values_are_that_value(value):
    series, upper = measured([value] * 10)
    assert {percentile(series, upper, share) for share in (0.0, 0.5, 0.99, 1.0)} == {value}


def test_percentiles_of_nothing_are_zero():
    assert percentile(*measured([]), 0.5) == 0


def test_bounds_are_round_and_ascend():
    upper = bounds(-2, 1)
    assert upper[:3] == (0.01, 0.012, 0.015)
    assert upper[-1] == 10
    assert list(upper) == sorted(set(upper))

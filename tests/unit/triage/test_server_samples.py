"""Metrics of a server, and what two moments of them tell."""

import pytest

from pinlater.model.histogram import Histogram
from pinlater.server.metrics import Metrics, render_prometheus
from pinlater.triage.readings import ServerReading, ShardReading, StoreCalls
from pinlater.triage.server_samples import ServerSample, parse_metrics, server_reading


def test_what_happened_between_two_samples():
    first = ServerSample({"ack": Histogram((0.1, 1.0), (100, 0, 0), 1.0)}, {}, 4, 2)
    shards, by_key, warn = [ShardReading("1", "refused")], {"email": 7}, {"WARN_FLOOD_JOBS": 5.0}
    times = {"ack": Histogram((0.1, 1.0), (100, 10, 0), 6.0), "dequeue": Histogram((0.1, 1.0), (0, 0, 0), 0.0)}
    last = ServerSample(times, {}, 5, 9, shards, by_key, warn)
    reading = server_reading(first, last)
    assert reading == ServerReading(
        shards, [StoreCalls("ack", 10, pytest.approx(0.955), pytest.approx(0.55))], [], 1, 7, by_key, warn
    )
    assert server_reading(None, last) == ServerReading(shards, waiting_for_key=by_key, thresholds=warn)
    assert server_reading(ServerSample(), ServerSample()) == ServerReading(store_calls=[], shard_calls=[])


def test_a_server_of_a_new_version_may_have_other_buckets():
    old, new = Histogram((0.1, 1.0), (100, 0, 0), 1.0), Histogram((0.1, 0.5, 1.0), (90, 20, 0, 0), 9.0)
    [calls] = server_reading(ServerSample({"ack": old}), ServerSample({"ack": new})).store_calls
    assert calls.calls == 110


def test_many_quick_calls_of_one_operation_do_not_hide_slow_ones_of_another():
    quick, slow = Histogram((0.1, 1.0), (1000, 0, 0), 1.0), Histogram((0.1, 1.0), (0, 3, 0), 2.0)
    reading = server_reading(ServerSample(), ServerSample({"dequeue": quick, "enqueue": slow}))
    assert [calls.name for calls in reading.store_calls] == ["enqueue", "dequeue"]
    assert reading.store_calls[0].p95_seconds > 0.9


def test_the_page_of_a_server_is_read():
    metrics = Metrics()
    for seconds in (0.001, 0.001, 2.0):
        metrics.store_seconds.observe("enqueue", seconds)
    metrics.store_seconds.observe("ack", 2.0)
    metrics.shard_call_seconds.observe("2", 3.0)
    metrics.commits_failed.add(count=3)
    metrics.store_free_bytes.set("1", 5e9)
    metrics.store_bytes.set("1", 1e9)
    metrics.shard_unhealthy.set("2", 1)
    metrics.shard_unhealthy.set("1", 0)
    metrics.waiting_for_key_jobs.set("email", 12)
    metrics.warning_threshold.set("WARN_WAIT_SECONDS", 30.0)
    metrics.certificate_expiry.source = lambda: 1.8e9
    found = parse_metrics(render_prometheus(metrics.snapshot()))
    assert {operation: times.size for operation, times in found.store.items()} == {"enqueue": 3, "ack": 1}
    assert {shard: times.size for shard, times in found.shard_times.items()} == {"2": 1}
    assert 1.5 < found.store["enqueue"].quantile(0.9) < 2.5
    assert found.store["enqueue"].mean == pytest.approx(0.6673, abs=0.001)
    assert (found.failed_commits, found.refused_calls, found.waiting_for_key) == (3, 0, {"email": 12})
    assert (found.thresholds, found.certificate_ends) == ({"WARN_WAIT_SECONDS": 30.0}, 1.8e9)
    assert server_reading(found, found).certificate_ends == server_reading(None, found).certificate_ends == 1.8e9
    assert found.shards == [
        ShardReading("1", "", None, 1e9, 5e9),
        ShardReading("2", "the server does not use it until it does", None, None, None),
    ]


def test_another_page_is_refused():
    with pytest.raises(ValueError, match="no metrics of a PinLater server"):
        parse_metrics("<html>")

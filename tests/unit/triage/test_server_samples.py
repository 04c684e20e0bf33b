"""Metrics of a server, and what two moments of them tell."""

import pytest

from pinlater.model.histogram import Histogram
from pinlater.server.metrics import Metrics, render_prometheus
from pinlater.triage.readings import ServerReading, ShardReading
from pinlater.triage.server_samples import ServerSample, merged, parse_metrics, server_reading


def test_what_happened_between_two_samples():
    first = ServerSample(Histogram((0.1, 1.0), (100, 0, 0), 1.0), 4, 2)
    shards, by_key = [ShardReading("1", "refused")], {"email": 7}
    last = ServerSample(Histogram((0.1, 1.0), (100, 10, 0), 6.0), 5, 9, shards, by_key)
    reading = server_reading(first, last)
    assert reading._replace(store_p95_seconds=None) == ServerReading(shards, 10, None, 1, 7, by_key)
    assert 0.9 < reading.store_p95_seconds <= 1.0
    assert server_reading(None, last) == ServerReading(shards, waiting_for_key=by_key)
    assert server_reading(ServerSample(), ServerSample()) == ServerReading()


def test_operations_are_put_together():
    assert merged([]) is None
    assert merged([Histogram((1.0,), (1, 2), 3.0), Histogram((1.0,), (4, 0), 1.0)]) == Histogram((1.0,), (5, 2), 4.0)


def test_the_page_of_a_server_is_read():
    metrics = Metrics()
    for seconds in (0.001, 0.001, 2.0):
        metrics.store_seconds.observe("enqueue", seconds)
    metrics.store_seconds.observe("ack", 2.0)
    metrics.commits_failed.add(count=3)
    metrics.store_free_bytes.set("1", 5e9)
    metrics.store_bytes.set("1", 1e9)
    metrics.shard_unhealthy.set("2", 1)
    metrics.shard_unhealthy.set("1", 0)
    metrics.waiting_for_key_jobs.set("email", 12)
    found = parse_metrics(render_prometheus(metrics.snapshot()))
    assert found.store is not None
    assert found.store.size == 4
    assert 1.5 < found.store.quantile(0.9) < 2.5
    assert found.store.mean == pytest.approx(1.0005)
    assert (found.failed_commits, found.refused_calls, found.waiting_for_key) == (3, 0, {"email": 12})
    assert found.shards == [
        ShardReading("1", "", None, 1e9, 5e9),
        ShardReading("2", "it is marked as not answering", None, None, None),
    ]


def test_another_page_is_refused():
    with pytest.raises(ValueError, match="no metrics of a PinLater server"):
        parse_metrics("<html>")

"""What the dashboard finds wrong, and how often it asks."""

import asyncio
from dataclasses import replace

from pinlater.client.periodic import PeriodicJobs
from pinlater.dashboard.figures import ServerFigures, ServerProcess, ShardHealth
from pinlater.dashboard.history import History
from pinlater.dashboard.triage import Triage, sample_of
from pinlater.dashboard.ttl_cache import TtlCache
from pinlater.server.admin.figures import figures_of
from pinlater.server.admin.reports import ServerStatus
from pinlater.server.metrics import Metrics
from pinlater.server.metrics.reports import decode_report, encode_report
from pinlater.triage.readings import ShardReading
from tests.unit.triage.test_collect import FakeVerbs


def figures(metrics, *shards):
    status = ServerStatus([decode_report(encode_report(7, None, metrics.snapshot()))], [])
    return replace(figures_of(status), shards=list(shards))


def test_all_that_triage_needs_is_among_the_figures():
    metrics = Metrics()
    metrics.store_seconds.observe("enqueue", 2.0)
    metrics.shard_call_seconds.observe("2", 3.0)
    metrics.warning_threshold.set("WARN_WAIT_SECONDS", 30.0)
    metrics.certificate_expiry.source = lambda: 1.8e9
    metrics.commits_failed.add(count=3)
    metrics.calls_shed.add("enqueueJobs", 2)
    metrics.waiting_for_key_jobs.set("email", 12)
    metrics.store_free_bytes.set("1", 5e9)
    metrics.store_bytes.set("1", 1e9)
    shards = [ShardHealth("1", "/data", 5), ShardHealth("2", "db2", 6, error="refused", unhealthy_in=1)]
    sample = sample_of(figures(metrics, *shards))
    assert (sample.store["enqueue"].size, sample.shard_times["2"].size) == (1, 1)
    assert (sample.failed_commits, sample.refused_calls, sample.waiting_for_key) == (3, 2, {"email": 12})
    assert (sample.thresholds, sample.certificate_ends) == ({"WARN_WAIT_SECONDS": 30.0}, 1.8e9)
    assert sample.shards == [ShardReading("1", "", 5, 1e9, 5e9), ShardReading("2", "refused", 6, None, None)]


def test_findings_come_from_the_service_and_the_metrics():
    shown = ServerFigures(
        [ServerProcess(7, None, 0, 0, 0)], shards=[ShardHealth("1", "x", 5, error="no", unhealthy_in=1)]
    )

    async def read():
        return shown

    async def main():
        client = FakeVerbs(["email", "sms"], waits_ms=90_000)
        history = History(read)

        async def periodic(_):
            return PeriodicJobs([], set())

        async def groups(queue):
            return await client.failure_groups([queue] if queue else [], limit=1000)

        async def reports(_):
            return []

        cached_groups = TtlCache(groups)
        await cached_groups.get("")
        caches = {"periodic": TtlCache(periodic), "groups": cached_groups, "reports": TtlCache(reports)}
        triage = Triage(client, history, read, **caches)
        everything, one = await triage.get(), await triage.get("sms")
        await triage.get()
        return [(each.kind, each.subject) for each in everything], {each.queue for each in one}, client.asked

    everything, one, asked = asyncio.run(main())
    assert everything[0] == ("shard_away", "1")
    assert {("no_worker", "email"), ("no_worker", "sms")} < set(everything)
    assert one == {None, "sms"}
    assert asked["queue_settings"] == 2, "the third answer is that of the first"
    assert asked["periodic_jobs"] == 0, "they are taken from the cache"
    assert asked["failure_groups"] == 2, "those of all queues, of which the page of failures knows, and of one"


def test_a_slow_store_is_found_from_the_first_sample_on():
    metrics = Metrics()

    async def read():
        return replace(figures(metrics), processes=[ServerProcess(7, None, 0, 0, 0)])

    async def main():
        client, history, cache = FakeVerbs(["email"]), History(read), TtlCache(nothing)
        metrics.store_seconds.observe("enqueue", 0.001)  # before anyone has looked
        await history.sample()
        for _ in range(2):
            metrics.store_seconds.observe("enqueue", 2.0)
        triage = Triage(client, history, read, periodic=TtlCache(no_periodic), groups=cache, reports=cache)
        return [finding.kind for finding in await triage.get()]

    async def nothing(_):
        return []

    async def no_periodic(_):
        return PeriodicJobs([], set())

    assert "store_slow" in asyncio.run(main())


def test_a_server_none_of_whose_processes_takes_calls():
    one, other = ServerProcess(7, "no disk", 0, 0, 0), ServerProcess(8, None, 0, 0, 0)
    assert sample_of(ServerFigures([one])).problem == "no disk"
    assert sample_of(ServerFigures([one, other])).problem == sample_of(ServerFigures()).problem == ""

"""What the dashboard finds wrong, and how often it asks."""

import asyncio
from dataclasses import replace

import pytest

from pinlater.client.periodic import PeriodicJobs
from pinlater.dashboard.figures import ServerFigures, ServerProcess, ShardHealth
from pinlater.dashboard.history import History
from pinlater.dashboard.triage import Triage, sample_of
from pinlater.dashboard.ttl_cache import TtlCache
from pinlater.errors import NoHealthyShards
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
    metrics.commits_failed.add(count=3)
    metrics.calls_shed.add("enqueueJobs", 2)
    metrics.waiting_for_key_jobs.set("email", 12)
    metrics.store_free_bytes.set("1", 5e9)
    metrics.store_bytes.set("1", 1e9)
    shards = [ShardHealth("1", "/data", 5), ShardHealth("2", "db2", 6, error="refused", unhealthy_in=1)]
    sample = sample_of(figures(metrics, *shards))
    assert sample.store.size == 1
    assert (sample.failed_commits, sample.refused_calls, sample.waiting_for_key) == (3, 2, {"email": 12})
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

        async def reports(_):
            return []

        triage = Triage(client, history, read, TtlCache(periodic), TtlCache(reports))
        everything, one = await triage.get(), await triage.get("sms")
        await triage.get()
        return [(each.kind, each.subject) for each in everything], {each.queue for each in one}, client.asked

    everything, one, asked = asyncio.run(main())
    assert everything[0] == ("shard_away", "1")
    assert {("no_worker", "email"), ("no_worker", "sms")} < set(everything)
    assert one == {None, "sms"}
    assert asked["queue_settings"] == 2, "the third answer is that of the first"
    assert asked["periodic_jobs"] == 0, "they are taken from the cache"


def test_a_server_none_of_whose_processes_takes_calls():
    one, other = ServerProcess(7, "no disk", 0, 0, 0), ServerProcess(8, None, 0, 0, 0)
    assert sample_of(ServerFigures([one])).problem == "no disk"
    assert sample_of(ServerFigures([one, other])).problem == sample_of(ServerFigures()).problem == ""


# Answers that are given while the next one is loaded


class SlowAnswers:
    def __init__(self):
        self.asked, self.now, self.error, self.may_answer = 0, 0.0, None, asyncio.Event()
        self.may_answer.set()

    async def __call__(self, _):
        await self.may_answer.wait()
        self.asked += 1
        self.now += 1.0
        if self.error:
            raise self.error
        return self.asked


def test_an_old_answer_is_given_while_a_new_one_is_loaded():
    async def main():
        answers = SlowAnswers()
        cache = TtlCache(answers, lambda: answers.now, stale_seconds=60)
        await cache.get("")
        answers.now += 30
        answers.may_answer.clear()
        old = [await cache.get(""), await cache.get("")]
        answers.may_answer.set()
        await asyncio.gather(*cache._loading.values())
        new = await cache.get("")
        answers.now += 100
        return old, new, await cache.get(""), answers.asked

    assert asyncio.run(main()) == ([1, 1], 2, 3, 3)


def test_what_cannot_be_loaded_is_told_to_the_next():
    async def main():
        answers = SlowAnswers()
        cache = TtlCache(answers, lambda: answers.now, stale_seconds=60)
        await cache.get("")
        answers.now += 30
        answers.error = NoHealthyShards("all ill")
        assert await cache.get("") == 1
        await asyncio.gather(*cache._loading.values())
        with pytest.raises(NoHealthyShards):
            await cache.get("")

    asyncio.run(main())


def test_a_page_that_is_closed_leaves_nothing_behind():
    async def main():
        answers = SlowAnswers()
        cache = TtlCache(answers, lambda: answers.now, stale_seconds=60)
        await cache.get("")
        answers.now += 30
        answers.may_answer.clear()
        await cache.get("")
        await cache.close()
        return answers.asked, len(asyncio.all_tasks())

    assert asyncio.run(main()) == (1, 1)

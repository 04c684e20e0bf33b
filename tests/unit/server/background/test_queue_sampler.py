"""Samples of the queues for the metrics, and what they cost the store."""

import asyncio

import pytest

from pinlater.errors import NoHealthyShards, QueueNotFound, UnknownError
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING
from pinlater.server.backends.records import JobFilter
from pinlater.server.background.queue_sampler import QueueSampler, follow_completions, forget_missing_queues
from pinlater.server.background.sampling import sample_repeatedly
from pinlater.server.metrics import Metrics
from pinlater.server.metrics.derived import backlog_seconds
from pinlater.server.metrics.recent import RecentRates
from pinlater.server.metrics.reports import decode_report, encode_report, snapshots_of, sum_reports
from tests.support.waiting import until

NOW_MS = 1_000_000


PLACES = {
    JobFilter(PENDING, is_future=False): 0,
    JobFilter(IN_PROGRESS): 1,
    JobFilter(PENDING, is_future=True): 3,
    JobFilter(PENDING, is_future=False, is_retrying=True): 4,
    JobFilter(FAILED): 5,
    JobFilter(PENDING, waits_for_key=True): 6,
    JobFilter(PENDING, is_future=True, is_retrying=True): 7,
    JobFilter(PENDING, is_retrying=True, waits_for_key=True): 8,
}


class Store:
    """Says what each queue has: jobs due, running, since when the oldest is due; future, retrying now, failed,
    waiting for their keys, retrying later, of these waiting for their keys."""

    def __init__(self, queues):
        self.queues = queues
        self.deleted = set()
        self.slow = set()
        self.states = {}
        self.active = {}
        self.asked = []

    async def states_in_use(self):
        return {queue: set(self.states.get(queue, {PENDING, IN_PROGRESS, FAILED})) for queue in self.queues}

    async def count_jobs(self, queue, which):
        self.asked.append(queue)
        if queue in self.deleted:
            raise QueueNotFound(queue)
        if queue in self.slow:
            raise UnknownError("the database stopped a statement that took too long")
        counts = self.queues[queue]
        return counts[PLACES[which]] if PLACES[which] < len(counts) else 0

    async def first_due(self, queues):
        return {queue: self.queues[queue][2] for queue in queues}

    def now_ms(self):
        return NOW_MS

    def active_shards(self, queue):
        return self.active.get(queue, ())


def levels(metrics, name):
    [one] = [one for one in metrics.snapshot() if one.info.name == name]
    return one.values


def sample(store, metrics, *paused):
    asyncio.run(QueueSampler(store, metrics, lambda queue: queue in paused).sample())


def test_each_queue_is_shown():
    metrics = Metrics()
    sample(Store({"email": (3, 2, NOW_MS - 4500), "sms": (0, 0, None), "skewed": (1, 0, NOW_MS + 50)}), metrics)
    assert levels(metrics, "pinlater_queue_backlog_jobs") == {"email": 3, "sms": 0, "skewed": 1}
    assert levels(metrics, "pinlater_queue_running_jobs") == {"email": 2, "sms": 0, "skewed": 0}
    assert levels(metrics, "pinlater_queue_oldest_due_age_seconds") == {"email": 4.5, "sms": 0, "skewed": 0}


def test_what_does_not_run_is_shown():
    metrics = Metrics()
    sample(Store({"email": (6, 0, 0, 9, 2, 5, 4, 3, 1), "sms": (0, 0, None)}), metrics, "sms")
    shown = ("scheduled_jobs", "waiting_for_key_jobs", "retrying_jobs", "due_retrying_jobs", "failed_jobs", "paused")
    found = {noun: levels(metrics, f"pinlater_queue_{noun}") for noun in shown}
    assert {noun: values["email"] for noun, values in found.items()} == dict(
        zip(shown, (3, 3, 5, 2, 5, 0), strict=True)
    )
    assert {noun: values["sms"] for noun, values in found.items()} == dict(zip(shown, (0, 0, 0, 0, 0, 1), strict=True))


def test_a_paused_queue_is_known_as_such_as_soon_as_its_backlog_is():
    class Deep(Store):
        async def count_jobs(self, queue, which):
            if which.state == FAILED:
                raise UnknownError("the database stopped a statement that took too long")
            return await super().count_jobs(queue, which)

    metrics = Metrics()
    sample(Deep({"email": (6, 0, NOW_MS)}), metrics, "email")
    assert levels(metrics, "pinlater_queue_backlog_jobs") == {"email": 6}
    assert levels(metrics, "pinlater_queue_paused") == {"email": 1}


def test_the_number_of_shards_that_take_new_jobs_is_shown_where_they_are_not_all():
    metrics, store = Metrics(), Store({"email": (0, 0, None), "sms": (0, 0, None)})
    store.active["email"] = ("a", "c")
    sample(store, metrics)
    assert levels(metrics, "pinlater_queue_active_shards") == {"email": 2, "sms": 0}


def test_queues_that_are_gone_are_shown_no_more():
    metrics = Metrics()
    store = Store({"email": (3, 2, NOW_MS), "sms": (1, 0, NOW_MS)})
    sample(store, metrics)
    store.deleted.add("sms")  # between the names and the counts
    sample(store, metrics)
    del store.queues["sms"]
    sample(store, metrics)
    assert set(levels(metrics, "pinlater_queue_backlog_jobs")) == {"email"}


def test_a_queue_that_cannot_be_counted_keeps_no_other_from_it():
    metrics, store = Metrics(), Store({"deep": (3, 2, NOW_MS), "email": (4, 0, NOW_MS)})
    store.slow.add("deep")
    sample(store, metrics)
    assert levels(metrics, "pinlater_queue_backlog_jobs") == {"email": 4}


def test_a_page_asks_the_store_nothing():
    store, metrics = Store({"email": (3, 2, NOW_MS, 1, 0, 0, 1, 1)}), Metrics()
    sample(store, metrics)
    asked = len(store.asked)
    for _ in range(5):
        metrics.snapshot()
    assert len(store.asked) == asked == len(PLACES)


def test_a_queue_without_future_jobs_is_not_asked_for_those_that_wait_for_a_key():
    store, metrics = Store({"email": (3, 2, NOW_MS)}), Metrics()
    sample(store, metrics)
    assert len(store.asked) == len(PLACES) - 3


def test_what_a_queue_has_no_jobs_of_is_not_asked_for():
    store, metrics = Store({"email": (0, 2, None), "sms": (0, 0, None)}), Metrics()
    store.states = {"email": {IN_PROGRESS}, "sms": set()}
    sample(store, metrics)
    assert store.asked == ["email"]
    assert levels(metrics, "pinlater_queue_running_jobs") == {"email": 2, "sms": 0}
    assert levels(metrics, "pinlater_queue_failed_jobs") == {"email": 0, "sms": 0}


def test_a_store_that_is_away_ends_nothing():
    class Away(Store):
        async def states_in_use(self):
            self.asked.append("names")
            raise OSError

    store = Away({})

    async def main():
        task = asyncio.create_task(sample_repeatedly(QueueSampler(store, Metrics(), lambda _: False).sample, 0.001))
        await until(lambda: len(store.asked) >= 3)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())
    assert len(store.asked) >= 3


def test_rates_are_those_of_the_window():
    rates = RecentRates(100)
    assert rates.add(0, {"q": 50}) == {}
    assert rates.add(10, {"q": 150}) == {"q": 10}
    assert rates.add(60, {"q": 150, "new": 30}) == {"q": pytest.approx(100 / 60), "new": 0.5}
    assert rates.add(110, {"q": 150}) == {"q": 0}
    assert rates.add(115, {"q": 155}) == {"q": pytest.approx(5 / 105)}


def test_what_was_not_sampled_before_has_not_grown():
    rates = RecentRates(100, absent=None)
    assert rates.add(0, {}) == {}
    assert rates.add(10, {"q": 150}) == {}
    assert rates.add(30, {"q": 170, "late": 5000}) == {"q": 1}
    assert rates.add(40, {"q": 120, "late": 5000}) == {"q": -1, "late": 0}
    assert rates.add(130, {"q": 270, "late": 4000}) == {"q": 1, "late": -10}


def test_completions_of_both_kinds_count():
    metrics = Metrics()

    async def main():
        task = asyncio.create_task(follow_completions(metrics, 0.01))
        await asyncio.sleep(0.02)
        metrics.acks_succeeded.add("email", 5)
        metrics.acks_failed.add("email", 5)
        await until(lambda: levels(metrics, "pinlater_queue_completions_per_second").get("email"))
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(asyncio.wait_for(main(), 20))
    assert levels(metrics, "pinlater_queue_completions_per_second")["email"] > 0


def test_a_queue_that_is_deleted_and_created_anew_completes_nothing_less_than_none():
    metrics = Metrics()

    async def main():
        metrics.acks_succeeded.add("email", 5)
        task = asyncio.create_task(follow_completions(metrics, 0.01))
        await asyncio.sleep(0)
        metrics.forget_queue("email")
        metrics.acks_succeeded.add("email", 1)
        await until(lambda: "email" in levels(metrics, "pinlater_queue_completions_per_second"))
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(asyncio.wait_for(main(), 20))
    assert levels(metrics, "pinlater_queue_completions_per_second")["email"] >= 0


def test_backlog_in_seconds():
    assert backlog_seconds({"a": 100, "b": 3, "c": 0}, {"a": 20.0, "c": 0.0}) == {"a": 5, "b": 900, "c": 0}


def test_the_pace_of_all_processes_counts():
    first, second = Metrics(), Metrics()
    first.backlog_jobs.set("email", 60)  # one of them looks at the queues
    for metrics, pace in ((first, 2.0), (second, 4.0)):
        metrics.completions_per_second.set("email", pace)
    reports = [decode_report(encode_report(1, None, metrics.snapshot())) for metrics in (first, second)]
    total = {one.info.name: one for one in snapshots_of(sum_reports(reports))}
    assert total["pinlater_queue_backlog_seconds"].values == {("email",): 10}
    assert total["pinlater_queue_completions_per_second"].values == {("email",): 6}


def test_series_of_queues_that_do_not_exist_are_dropped():
    class Store:
        names = frozenset({"real"})

        async def queue_names(self):
            if not self.names:
                raise NoHealthyShards("away")
            return self.names

    async def act():
        store, metrics = Store(), Metrics()
        for queue in ("real", "gone"):
            metrics.acks_succeeded.add(queue)
            metrics.dequeue_wait_seconds.observe(queue, 1.0)
            metrics.completions_per_second.set(queue, 1.0)
        watching = asyncio.create_task(forget_missing_queues(store.queue_names, metrics, 0))
        async with asyncio.timeout(60):
            while metrics.queues() != {"real"}:
                await asyncio.sleep(0)
            store.names = frozenset()
            for _ in range(20):
                await asyncio.sleep(0)
            assert metrics.queues() == {"real"}  # a store that is away knows of none
            assert metrics.acks_succeeded.value("real") == 1
        watching.cancel()

    asyncio.run(act())

"""Answers that all who look at the dashboard share: how often the service is asked, and what is shown meanwhile."""

import asyncio

import pytest

from pinlater.dashboard.app_state import AppState, make_app_state
from pinlater.dashboard.class_figures import SPANS
from pinlater.dashboard.count_cache import CountCache, StateCounts
from pinlater.dashboard.options import DashboardOptions
from pinlater.dashboard.ttl_cache import TtlCache
from pinlater.errors import NoHealthyShards


def test_expensive_reads_are_cached():
    now, asked = [0.0], []

    async def ask(key):
        asked.append(key)
        now[0] += 1.0
        return len(asked)

    async def main():
        fresh = TtlCache(ask, lambda: now[0])
        first = await asyncio.gather(*[fresh.get("a") for _ in range(5)])
        now[0] += 9.0
        second = await fresh.get("a")
        now[0] += 2.0
        return first, second, await fresh.get("a")

    assert asyncio.run(main()) == ([1] * 5, 1, 2)  # kept ten times as long as the asking took


class SlowAnswers:
    """Number themselves, each a second after it was asked for; wait, or fail, as they are told."""

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


async def with_an_old_answer():
    """Return answers, and a cache that has the first of them, too old to be given without another being loaded."""
    answers = SlowAnswers()
    cache = TtlCache(answers, lambda: answers.now, stale_seconds=60)
    await cache.get("")
    answers.now += 30
    return answers, cache


def test_an_old_answer_is_given_while_a_new_one_is_loaded():
    async def main():
        answers, cache = await with_an_old_answer()
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
        answers, cache = await with_an_old_answer()
        answers.error = NoHealthyShards("all ill")
        assert await cache.get("") == 1
        await asyncio.gather(*cache._loading.values())
        with pytest.raises(NoHealthyShards):
            await cache.get("")

    asyncio.run(main())


def test_an_answer_ends_the_failure_before_it():
    async def main():
        answers = SlowAnswers()
        cache = TtlCache(answers, lambda: answers.now, stale_seconds=60)
        answers.error = NoHealthyShards("all ill")
        with pytest.raises(NoHealthyShards):
            await cache.get_within("", 20)
        answers.error = None
        return await cache.get(""), await cache.get_within("", 20)

    assert asyncio.run(main()) == (2, 2)


def test_a_page_that_is_closed_leaves_nothing_behind():
    async def main():
        answers, cache = await with_an_old_answer()
        answers.may_answer.clear()
        await cache.get("")
        await cache.close()
        return answers.asked, len(asyncio.all_tasks())

    assert asyncio.run(main()) == (1, 1)


def test_whoever_asks_does_not_wait_for_what_takes_long():
    async def scenario():
        may_answer = asyncio.Event()

        async def load(_):
            await may_answer.wait()
            return "found"

        cache = TtlCache(load)
        assert await cache.get_within("", 0.01) is None
        may_answer.set()
        assert await cache.get_within("", 5) == "found"
        await cache.close()

    asyncio.run(scenario())


def test_an_old_answer_is_given_only_if_no_new_one_comes_soon():
    async def scenario():
        answers, cache = await with_an_old_answer()
        hopeless = await cache.get_within("", 20, seconds_beside_old=0.5)  # it took a second the last time
        await asyncio.gather(*cache._loading.values())
        answers.now += 30
        soon = await cache.get_within("", 20, seconds_beside_old=20)
        answers.now += 30
        answers.may_answer.clear()
        answers.now -= 1
        cache._known[""] = (*cache._known[""][:2], 0.0)
        late = await cache.get_within("", 20, seconds_beside_old=0.01)
        await cache.close()
        return hopeless, soon, late

    assert asyncio.run(scenario()) == (1, 3, 3)


def test_whoever_needs_it_waits_for_a_new_answer():
    async def scenario():
        _, cache = await with_an_old_answer()
        return await cache.get_fresh("")

    assert asyncio.run(scenario()) == 2


def test_an_answer_is_cached_by_its_cost():
    async def scenario():
        answers = SlowAnswers()
        cache = TtlCache(answers, lambda: answers.now, cost_factor=3)
        first = await cache.get("")
        answers.now += 2.5
        second = await cache.get("")
        answers.now += 1
        return first, second, await cache.get("")

    assert asyncio.run(scenario()) == (1, 1, 2)


def test_whoever_asks_hears_why_nothing_can_be_loaded():
    async def scenario():
        async def load(_):
            raise NoHealthyShards("no shard answers")

        cache = TtlCache(load)
        with pytest.raises(NoHealthyShards):
            await cache.get_within("", 5)
        await cache.close()

    asyncio.run(scenario())


# Counts of queues


class SlowClient:
    """Counts one more job each time, as slowly as it is told."""

    def __init__(self):
        self.calls, self.may_answer = 0, asyncio.Event()
        self.may_answer.set()

    async def count(self, queue, state, **filters):
        self.calls += 1
        await self.may_answer.wait()
        return self.calls


def test_aged_counts_are_shown_while_new_ones_are_made():
    async def scenario():
        client, now = SlowClient(), [100.0]
        counts = CountCache(client, clock=lambda: now[0])
        first = (await counts.get(["pins"]))["pins"]
        assert (await counts.get(["pins"]))["pins"] == first
        now[0] += 10
        client.may_answer.clear()
        assert (await counts.get(["pins"]))["pins"] == first
        client.may_answer.set()
        while (await counts.get(["pins"]))["pins"] == first:
            await asyncio.sleep(0)
        counts.forget("pins")
        calls = client.calls
        await counts.get(["pins"], is_open=True)
        assert client.calls - calls == len(StateCounts._fields) - 1  # succeeded ones are not counted
        await counts.close()

    asyncio.run(scenario())


def test_a_queue_in_which_nothing_happens_is_not_counted_again():
    async def scenario():
        client, now, signs = SlowClient(), [100.0], {"pins": (1, 2)}
        counts = CountCache(client, clock=lambda: now[0], signs=signs.get)
        await counts.get(["pins", "unknown"])
        before = client.calls
        now[0] += 5
        await counts.get(["pins"])
        assert client.calls == before
        await counts.get(["unknown"])
        assert client.calls == (before := before + len(StateCounts._fields))
        signs["pins"] = (1, 3)
        await counts.get(["pins"])
        assert client.calls == (before := before + len(StateCounts._fields))
        for seconds, counted in ((29, 0), (2, 1)):
            now[0] += seconds
            await counts.get(["pins"])
            assert client.calls == (before := before + counted * len(StateCounts._fields))
        await counts.close()

    asyncio.run(scenario())


def test_many_viewers_count_no_more_than_one():
    async def scenario():
        client, now = SlowClient(), [100.0]
        counts = CountCache(client, clock=lambda: now[0])
        await asyncio.gather(*[counts.get(["pins"]) for _ in range(20)])
        assert client.calls == len(StateCounts._fields)

    asyncio.run(scenario())


class PoliteClient(SlowClient):
    async def count(self, queue, state, **filters):
        await asyncio.sleep(0)
        return await super().count(queue, state, **filters)


def test_one_queue_is_counted_between_many_others():
    async def scenario():
        client = PoliteClient()
        counts = CountCache(client)
        many = asyncio.create_task(counts.get([f"q{number}" for number in range(300)]))
        while client.calls < 10:
            await asyncio.sleep(0)
        assert await counts.get(["pins"])
        assert client.calls < 50
        assert len(await many) == 300
        await counts.close()

    asyncio.run(scenario())


def test_all_that_is_being_loaded_ends_with_the_dashboard():
    class Silent:
        def __getattr__(self, _):
            return lambda *_, **__: asyncio.Event().wait()

    async def main():
        options = DashboardOptions(server="", name="", read_figures=asyncio.Event().wait, plain_pages={})
        app = make_app_state(options, Silent(), Silent())
        hour = SPANS["1h"], "pins"
        keys = {"failure_trends": frozenset({"pins"}), "classes": hour, "queues_of_class": hour}
        for name in AppState.__slots__:
            if isinstance(cache := getattr(app, name), TtlCache):
                assert await cache.get_within(keys.get(name, "pins"), 0) is None
        loading = len(asyncio.all_tasks()) - 1
        await app.close()
        return loading, len(asyncio.all_tasks())

    assert asyncio.run(main()) == (8, 1)

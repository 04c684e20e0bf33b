"""Queue settings in the store: what applies until they are known."""

import asyncio
import contextlib
import logging

import pytest

from pinlater.errors import NoHealthyShards, UnknownError
from pinlater.model.queues import QueueSettings
from pinlater.server.backends.poll_intervals import FREQUENT_POLLS
from pinlater.server.backends.store import Capabilities
from pinlater.server.limits import stored_limits
from pinlater.server.limits.stored_limits import StoredLimits


class Store:
    """Answers with its settings, raises its error, or never answers."""

    def __init__(self):
        self.answer = {"pins": QueueSettings(is_paused=True)}
        self.applied = []

    def apply_settings(self, settings):
        self.applied.append(settings)

    async def queue_settings(self):
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Files:
    def __init__(self):
        self.said = []

    def apply_stored(self, stored):
        self.said.append(stored)


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def limits(store, caplog):
    caplog.set_level(logging.INFO)
    return StoredLimits(store, Files(), lambda _: None)


def test_what_was_read_is_in_force(limits, store):
    with pytest.raises(NoHealthyShards, match="not answer"):
        limits.check_loaded()
    asyncio.run(limits.load_initial())
    limits.check_loaded()
    assert limits._files.said == store.applied == [store.answer]


@pytest.mark.parametrize("trouble", [None, NoHealthyShards("none answers"), UnknownError("odd"), OSError("disk")])
def test_a_store_that_is_away_fails_no_start(limits, store, caplog, monkeypatch, trouble):
    monkeypatch.setattr(stored_limits, "_INITIAL_LOAD_SECONDS", 0.01)
    known, store.answer = store.answer, trouble
    asyncio.run(limits.load_initial())
    assert str(trouble or "no answer within 0.01 s") in caplog.text
    with pytest.raises(NoHealthyShards):
        limits.check_loaded()
    store.answer = known
    for _ in range(2):
        asyncio.run(limits.refresh())
    limits.check_loaded()
    assert caplog.text.count("jobs are handed out") == 1


def test_of_two_changes_at_once_the_later_reading_stays_in_force():
    class Slow(Store):
        """Its first reading takes longer than those after it."""

        def __init__(self):
            super().__init__()
            self.settings, self.readings, self.gate = {}, 0, asyncio.Event()

        async def change_queue_settings(self, queue, change):
            self.settings |= {queue: change}

        async def queue_settings(self):
            self.readings += 1
            found = dict(self.settings)
            if self.readings == 1:
                await self.gate.wait()
            return found

    async def main():
        store, files = Slow(), Files()
        limits = StoredLimits(store, files, lambda _: None)
        changes = [asyncio.create_task(limits.change(queue, QueueSettings(is_paused=True))) for queue in ("a", "b")]
        for _ in range(10):
            await asyncio.sleep(0)
        store.gate.set()
        await asyncio.gather(*changes)
        assert set(files.said[-1]) == {"a", "b"}

    asyncio.run(main())


def test_what_has_not_changed_is_not_applied_again(limits, store):
    answers = [None, {"pins": QueueSettings()}, asyncio.CancelledError()]

    async def changed():
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    store.changed_queue_settings, store.capabilities = changed, Capabilities("fake", False, FREQUENT_POLLS)
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(asyncio.CancelledError):
        patch.setattr(stored_limits, "_POLL_SECONDS", 0)
        asyncio.run(limits.watch())
    assert limits._files.said == store.applied == [{"pins": QueueSettings()}]


def test_queues_that_are_there_no_more_are_told_once(store):
    deleted = []
    limits = StoredLimits(store, Files(), deleted.append)
    store.capabilities = Capabilities("fake", False, FREQUENT_POLLS)

    async def names_after(*queues):
        store.answer = dict.fromkeys(queues, QueueSettings())
        await limits.refresh()
        return sorted(await limits.queue_names())

    async def scenario():
        with pytest.raises(NoHealthyShards):  # nobody shall take them all for deleted
            await limits.queue_names()
        assert await names_after("pins", "emails") == ["emails", "pins"]
        assert deleted == []
        for _ in range(2):
            assert await names_after("emails", "new") == ["emails", "new"]
        assert deleted == ["pins"]

    asyncio.run(scenario())


def test_the_queues_of_a_store_that_nobody_else_changes_are_those_it_has(limits, store):
    async def queue_names():
        return {"just made"}

    store.queue_names, store.capabilities = queue_names, Capabilities("fake", True, FREQUENT_POLLS)
    assert asyncio.run(limits.queue_names()) == {"just made"}

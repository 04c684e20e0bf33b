"""Limits that the store keeps: what holds until they are known."""

import asyncio
import logging

import pytest

from pinlater.errors import NoHealthyShards, UnknownError
from pinlater.server import stored_limits
from pinlater.server.backends.contract import QueueSettings
from pinlater.server.stored_limits import StoredLimits


class Store:
    """Answers with its settings, raises its error, or never answers."""

    def __init__(self):
        self.answer = {"pins": QueueSettings(is_paused=True)}

    async def queue_settings(self):
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Files:
    def __init__(self):
        self.said = []

    def store_says(self, stored):
        self.said.append(stored)


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def limits(store, caplog):
    caplog.set_level(logging.INFO)
    return StoredLimits(store, Files())


def test_what_was_read_is_in_force(limits, store):
    with pytest.raises(NoHealthyShards, match="not answer"):
        limits.check_known()
    asyncio.run(limits.learn())
    limits.check_known()
    assert limits._files.said == [store.answer]


@pytest.mark.parametrize("trouble", [None, NoHealthyShards("none answers"), UnknownError("odd"), OSError("disk")])
def test_a_store_that_is_away_fails_no_start(limits, store, caplog, monkeypatch, trouble):
    monkeypatch.setattr(stored_limits, "_FIRST_LOOK_SECONDS", 0.01)
    known, store.answer = store.answer, trouble
    asyncio.run(limits.learn())
    assert str(trouble or "no answer within 0.01 s") in caplog.text
    with pytest.raises(NoHealthyShards):
        limits.check_known()
    store.answer = known
    for _ in range(2):
        asyncio.run(limits.refresh())
    limits.check_known()
    assert caplog.text.count("jobs are handed out") == 1

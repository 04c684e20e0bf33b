"""Which workers are lost when their connections end."""

import asyncio
import time

import pytest

from pinlater.protocol.codec import Codec
from pinlater.protocol.messages import PinLaterWorker
from pinlater.server.backends.records import KeptReport
from pinlater.server.background import lost_workers
from pinlater.server.background.lost_workers import LostWorkers
from pinlater.server.broker.parking import LastReport


class Kept:
    """A store of reports, which may fail."""

    def __init__(self, **sent):
        self.codec, self.stored, self.asked, self.fails = Codec(), {}, 0, 0
        self.kept = {name: self.report(name, sent_ms) for name, sent_ms in sent.items()}

    def report(self, name, sent_ms):
        return self.codec.encode_struct(PinLaterWorker(workerId=name, host="web1", sentAtTimestampMillis=sent_ms))

    def now_ms(self):
        return 7000

    async def reports(self):
        self.asked += 1
        if self.asked <= self.fails:
            raise OSError("the store is away")
        return [KeptReport(name, report, 5) for name, report in self.kept.items()]

    async def store_report(self, name, report, keep_ms):
        worker = self.codec.decode_struct(PinLaterWorker, report)
        self.stored[name] = worker.lostAtTimestampMillis, worker.sentAtTimestampMillis, keep_ms


def last(name, sent_ms=100, number=2):
    return LastReport(name, sent_ms, 30_000, time.monotonic(), number)


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(lost_workers, "REPORT_SECONDS", 0.05)
    monkeypatch.setattr(lost_workers, "RECONNECT_SECONDS", 0.01)


def marked(store, *ended, then=()):
    """Return what is stored of the workers whose connections have ended, up to one that is lost in any case."""

    async def main():
        lost = LostWorkers(store)
        store.kept["control"] = store.report("control", 1)
        task = asyncio.create_task(lost.run())
        for one in ended:
            lost.connection_ended(one)
        for act in then:
            act()
        while not store.stored.get("control"):
            lost.connection_ended(last("control", 1))
            await asyncio.sleep(0.1)
        task.cancel()
        return {name: found for name, found in store.stored.items() if name != "control"}

    return asyncio.run(asyncio.wait_for(main(), 60))


def test_a_worker_whose_connection_ended_is_marked():
    assert marked(Kept(a=100), last("a")) == {"a": (7000, None, 30_000)}


def test_a_worker_that_has_reported_again_is_not():
    assert marked(Kept(a=200), last("a")) == {}


def test_nor_is_one_that_has_said_that_it_ends():
    assert marked(Kept(), last("a")) == {}


def test_nor_is_one_that_makes_a_connection_for_each_report():
    assert marked(Kept(a=100), last("a", number=1)) == {}


def test_nor_is_one_whose_next_report_is_on_its_way():
    store = Kept(a=100)
    assert marked(store, last("a"), then=[lambda: store.kept.update(a=store.report("a", 200))]) == {}


def test_one_read_serves_all_whose_connections_ended_together():
    store = Kept(**{f"w{number}": 100 for number in range(50)})
    assert len(marked(store, *[last(f"w{number}") for number in range(50)])) == 50
    assert store.asked <= 5


def test_a_store_that_is_away_does_not_end_it():
    store = Kept(a=100)
    store.fails = 1
    assert marked(store, last("a")) == {}
    assert store.stored["control"]

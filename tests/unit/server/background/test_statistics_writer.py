"""What a server process writes of its counters into the store."""

import asyncio

import pytest

from pinlater.model.statistics import FLEET, HOUR, MINUTE, MOST_CLASSES, OTHER, RunStatistics, Spread, StatisticsKind
from pinlater.server.backends.statistics import merged, record
from pinlater.server.backends.statistics_buffer import StatisticsBuffer
from pinlater.server.background import statistics_writer
from pinlater.server.background.statistics_writer import StatisticsWriter
from pinlater.server.metrics import Metrics

QUEUE, CLASS, FAILURE = StatisticsKind
START_MS = 1_700_000_000_000 // 3_600_000 * 3_600_000


class FakeStore:
    """Adds up; refuses while it is away."""

    def __init__(self):
        self.sums = {}
        self.is_away = False
        self.calls = []

    async def add_statistics(self, entries):
        if self.is_away:
            raise OSError("away")
        self.calls.append(len(entries))
        for key, counts in entries:
            self.sums[key] = merged(self.sums.get(key, {}), counts)

    def found(self, queue, *, resolution=MINUTE, kind=QUEUE, name=""):
        return [
            record((key, counts))
            for key, counts in sorted(self.sums.items())
            if (key.resolution, key.kind, key.queue, key.name) == (resolution, kind, queue, name)
        ]


class Process:
    def __init__(self):
        self.now_ms = START_MS + 5000
        self.store, self.metrics, self.buffer = FakeStore(), Metrics(), StatisticsBuffer()
        self.store.now_ms = lambda: self.now_ms
        self.writer = StatisticsWriter(self.store, self.metrics, self.buffer)

    def write(self, *, with_hours=True):
        async def write():
            await self.writer.collect()
            await self.writer.write(with_hours=with_hours)

        asyncio.run(write())

    def write_in_vain(self, minutes):
        """Count a job in each minute while the store is away."""
        self.store.is_away = True
        for _ in range(minutes):
            self.metrics.jobs_enqueued.add("mail")
            self.write()
            self.now_ms += 60_000
        self.store.is_away = False


@pytest.fixture
def process():
    return Process()


def test_counters_of_queues_and_of_the_fleet(process):
    metrics = process.metrics
    metrics.jobs_enqueued.add("mail", 5)
    metrics.jobs_enqueued.add("sms", 1)
    metrics.jobs_dequeued.add("mail", 4)
    metrics.acks_succeeded.add("mail", 2)
    for failed in (metrics.acks_failed, metrics.timeouts_retried, metrics.timeouts_done):
        failed.add("mail")
    metrics.jobs_given_up.add("mail")
    process.write()
    [mail] = process.store.found("mail")
    assert (mail.start_ms, mail.enqueued, mail.started, mail.succeeded, mail.failed, mail.given_up) == (
        *(START_MS, 5, 4),
        *(2, 3, 1),
    )
    assert [one.enqueued for one in process.store.found(FLEET)] == [6]
    assert process.store.found("mail", resolution=HOUR) == [mail]


def test_only_the_growth_is_added(process):
    for _ in range(3):
        process.metrics.jobs_enqueued.add("mail", 5)
        process.write()
    process.write()
    assert [one.enqueued for one in process.store.found("mail")] == [15]


def test_nothing_is_written_when_nothing_happens(process):
    process.metrics.jobs_enqueued.add("mail")
    process.write()
    process.write()
    assert process.store.calls == [4]


def test_a_minute_has_what_was_counted_until_its_end(process):
    process.metrics.jobs_enqueued.add("mail")
    process.now_ms = START_MS + 60_000
    process.write()
    process.metrics.jobs_enqueued.add("mail", 2)
    process.now_ms += 5_000
    process.write()
    assert [(one.start_ms, one.enqueued) for one in process.store.found("mail")] == [
        (START_MS, 1),
        (START_MS + 60_000, 2),
    ]


def test_waits_come_from_the_metric(process):
    for milliseconds in (0, 1, 1.2, 1.5, 40, 2e8):
        process.metrics.dequeue_delay_ms.observe("mail", milliseconds)
        process.metrics.jobs_dequeued.add("mail")
        process.write()
    [mail] = process.store.found("mail")
    assert mail.wait.counts == {6: 2, 7: 2, 16: 1, 55: 1}
    assert process.store.found(FLEET)[0].wait == mail.wait


def test_a_queue_that_is_created_anew_counts_from_the_start(process):
    for count in (7, 3):
        process.metrics.forget_queue("mail")
        process.metrics.jobs_dequeued.add("mail", count)
        process.metrics.dequeue_delay_ms.observe("mail", 5, count)
        process.write()
    [mail] = process.store.found("mail")
    assert (mail.started, mail.wait.count) == (10, 10)


def test_hours_are_written_when_asked_for(process):
    process.metrics.jobs_enqueued.add("mail", 5)
    process.write(with_hours=False)
    assert process.store.found("mail", resolution=HOUR) == []
    process.metrics.jobs_enqueued.add("mail", 5)
    process.write()
    assert [one.enqueued for one in process.store.found("mail", resolution=HOUR)] == [10]


def test_a_store_that_was_away_gets_everything_later(process):
    process.write_in_vain(3)
    process.write()
    assert [one.enqueued for one in process.store.found("mail")] == [1, 1, 1]


def test_of_what_waits_for_the_store_the_oldest_is_dropped(process, monkeypatch):
    monkeypatch.setattr(statistics_writer, "MOST_UNWRITTEN", 6)
    process.write_in_vain(10)
    process.write()
    assert len(process.store.sums) == 6
    assert process.store.found("mail")[-1].start_ms == START_MS + 9 * 60_000


def test_many_queues_are_written_in_several_calls(process):
    for number in range(500):
        process.metrics.jobs_enqueued.add(f"q{number}")
    process.write(with_hours=False)
    assert process.store.calls == [200, 200, 101]


def test_classes_count_in_their_queue_and_in_the_fleet(process):
    process.buffer.add_runs("mail", [RunStatistics("Send", 3, 2, 1, Spread({6: 1}), Spread({30: 5}))])
    process.buffer.add_runs("sms", [RunStatistics("Send", 1)])
    process.write()
    [send] = process.store.found("mail", kind=CLASS, name="Send")
    assert (send.succeeded, send.failed, send.given_up, send.wait, send.run) == (
        *(3, 2, 1),
        *(Spread({6: 1}), Spread({30: 5})),
    )
    assert [one.succeeded for one in process.store.found(FLEET, kind=CLASS, name="Send")] == [4]


def test_too_many_classes_of_a_queue_count_as_one_for_the_hour(process):
    names = [f"Class{number}" for number in range(MOST_CLASSES + 50)]
    process.buffer.add_runs("mail", [RunStatistics(name, 1) for name in names])
    process.write()
    assert [one.succeeded for one in process.store.found("mail", kind=CLASS, name=OTHER)] == [50]
    process.now_ms += 3_600_000
    process.write()
    process.buffer.add_runs("mail", [RunStatistics(names[-1], 1)])
    process.write()
    assert [one.succeeded for one in process.store.found("mail", kind=CLASS, name=names[-1])] == [1]


def test_names_that_nobody_knows_do_not_fill_the_memory(process, monkeypatch):
    """Whoever reaches the port can name any queue and class."""
    monkeypatch.setattr("pinlater.server.backends.statistics_buffer._MOST_NAMES", 10)
    for number in range(50):
        process.buffer.add_runs(f"queue_{number}", [RunStatistics(f"Job{number}", 1, 0, 0, Spread(), Spread())])
        process.write()
    assert sum(map(len, process.buffer._names.values())) == 10
    assert len(process.buffer._names) <= 10
    [kept] = process.store.found("queue_1", kind=CLASS, name="Job1")
    [other] = process.store.found("queue_49", kind=CLASS, name=OTHER)
    assert kept.succeeded == other.succeeded == 1
    process.buffer.forget_names()
    process.buffer.add_runs("mail", [RunStatistics("Send", 1, 0, 0, Spread(), Spread())])
    process.write()
    assert process.store.found("mail", kind=CLASS, name="Send")


def test_a_deleted_queue_leaves_nothing_behind(process):
    for queue in ("mail", "pins"):
        process.metrics.jobs_dequeued.add(queue)
        process.metrics.dequeue_delay_ms.observe(queue, 1.0)
    process.write()
    process.metrics.forget_queue("mail")
    process.write()
    assert list(process.writer._counters._delays_before) == ["pins"]


def test_failure_groups(process):
    process.buffer.add_failures("mail", 42, 3)
    process.write()
    assert [(one.failed, one.given_up) for one in process.store.found("mail", kind=FAILURE, name="42")] == [(3, 0)]


def test_a_process_that_ends_writes_a_last_time(process):
    async def main():
        task = asyncio.create_task(process.writer.run())
        await asyncio.sleep(0)
        process.metrics.jobs_enqueued.add("mail")
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())
    assert [one.enqueued for one in process.store.found("mail", resolution=HOUR)] == [1]


@pytest.mark.parametrize("turns", range(1, 12))
def test_a_process_that_ends_while_it_collects_loses_nothing(process, turns):
    async def end():
        task = asyncio.create_task(process.writer.run())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    for queue in ("mail", "sms"):
        process.metrics.jobs_enqueued.add(queue, 5)
    process.buffer.add_failures("mail", 42, 3)
    asyncio.run(end())
    enqueued = {queue: sum(one.enqueued for one in process.store.found(queue)) for queue in ("mail", "sms", FLEET)}
    assert enqueued == {"mail": 5, "sms": 5, FLEET: 10}
    assert [one.failed for one in process.store.found("mail", kind=FAILURE, name="42")] == [3]

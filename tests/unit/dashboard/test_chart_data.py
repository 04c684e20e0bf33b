"""Charts of queues: what the store keeps, finer where the admin process has seen it, beside a day or a week before."""

import asyncio

from pinlater.dashboard.chart_data import RANGES, QueueCharts, lines_of
from pinlater.dashboard.figures import ENQUEUED, ServerFigures, ServerProcess, ShardHealth
from pinlater.dashboard.history import History
from pinlater.model.statistics import HOUR, MINUTE, Spread, Statistics

NOW = 1_790_000_000 // HOUR * HOUR + 90.0  # a minute and a half after a full hour
DAY = 24 * HOUR


class Store:
    """Knows some statistics of one queue, by resolution; remembers what it was asked."""

    def __init__(self, by_resolution):
        self.by_resolution, self.asked = by_resolution, []

    async def statistics(self, kind, *, resolution, since_ms, until_ms, queues):
        self.asked.append((resolution, since_ms, until_ms, list(queues)))
        return [row for row in self.by_resolution.get(resolution, ()) if since_ms <= row.start_ms < until_ms]


def row(start, **numbers):
    return Statistics("pins", "", int(start * 1000), **numbers)


async def nothing():
    raise OSError


def chart(store, name, history=None, queue="pins"):
    return asyncio.run(QueueCharts(store, history or History(nothing), clock=lambda: NOW).get(queue, RANGES[name]))


def test_a_point_is_the_rate_in_the_middle_of_its_period():
    lines = lines_of([row(120, enqueued=60, succeeded=30, failed=6, wait=Spread({10: 5}))], range(60, 240, 60), 1000)
    assert lines.times == [1090, 1150, 1210]
    assert lines.enqueued == [0, 1.0, 0]
    assert (lines.succeeded[1], lines.failed[1]) == (0.5, 0.1)
    assert lines.waited_ms[0] is None
    assert lines.waited_ms[1] > 0


def test_a_day_is_shown_by_minutes_beside_the_hours_of_the_day_before():
    store = Store({MINUTE: [row(NOW - 90, succeeded=120)], HOUR: [row(NOW - 90 - DAY - HOUR, succeeded=7200)]})
    data = chart(store, "24h")
    assert len(data.lines.times) == 24 * 60
    assert data.lines.succeeded[-1] == 2.0
    assert data.lines.times[-1] < NOW  # the minute that is not over is left out
    assert data.before.succeeded[-1] == 2.0
    assert data.before.times[-1] == NOW - 90 - HOUR / 2
    assert {asked[3] == ["pins"] for asked in store.asked} == {True}


def test_a_month_is_compared_with_the_week_before():
    store = Store({HOUR: [row(NOW - 90 - 8 * DAY, failed=3600)]})
    data = chart(store, "30d")
    assert len(data.lines.times) == 30 * 24
    assert data.before.failed[data.before.times.index(NOW - 90 - DAY + HOUR / 2)] == 1.0


def test_without_anything_before_there_is_nothing_to_compare_with():
    assert chart(Store({}), "24h").before.times == []


def test_the_last_hour_is_finer_where_the_admin_process_has_seen_it():
    history = History(nothing)
    for number in range(5):
        figures = ServerFigures([ServerProcess(1, None, 1, 0, 1)], {ENQUEUED: {("pins",): number * 50}})
        history.add(NOW - 20 + number * 5, figures)
    store = Store({MINUTE: [row(NOW - 90 - 600, enqueued=120)]})
    data = chart(store, "1h", history)
    assert data.lines.times == sorted(data.lines.times)
    assert data.lines.enqueued[-4:] == [10.0] * 4
    assert 2.0 in data.lines.enqueued
    assert {len(line) for line in data.lines} == {len(data.lines.times)}
    assert chart(store, "1h", history, queue="").lines.enqueued[-1] == 0  # all queues: from the store alone


def test_the_last_hour_is_that_of_all_servers_of_a_store():
    history = History(nothing)
    shards = [ShardHealth("1", "db1:3306", 0, connections=2)]
    for number in range(5):
        figures = ServerFigures([ServerProcess(1, None, 1, 0, 1)], {ENQUEUED: {("pins",): 0}}, shards=shards)
        history.add(NOW - 140 + number * 5, figures)  # this server gets no jobs, others do
    store = Store({MINUTE: [row(NOW - 90, enqueued=120)]})
    assert chart(store, "1h", history).lines.enqueued[-1] == 2.0
    assert chart(store, "1h", history).lines == chart(store, "1h").lines


def test_ranges_are_named_in_the_address(browser):
    for name in RANGES:
        assert f'aria-current="true">{name[:-1]} {name[-1]}<' in browser.get(f"/queues/pins?range={name}").text
        times = browser.get(f"/charts?queue=pins&range={name}").json()["times"]
        assert times[-1] - times[0] > RANGES[name].seconds * 0.9
    assert browser.get("/queues/pins?range=2y").status_code == 400
    assert browser.get("/charts?queue=pins&range=2y").status_code == 400

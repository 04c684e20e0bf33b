"""The dashboard's parts by themselves: figures, the last hour, values as they are shown, vendored files."""

import asyncio
import hashlib
import math
import re
from pathlib import Path

import pytest
from markupsafe import Markup

import pinlater.dashboard
from pinlater import __version__
from pinlater.dashboard import formatting
from pinlater.dashboard import repeat as repeat_module
from pinlater.dashboard.bulk_actions import MAX_ACTIONS, Action, BulkActions, PlannedAction
from pinlater.dashboard.bulk_jobs import ListedJobs
from pinlater.dashboard.figures import (
    CALL_SECONDS,
    DEQUEUED,
    ENQUEUED,
    NAMES,
    SUCCEEDED,
    WAITED_MS,
    ServerFigures,
    ServerProcess,
)
from pinlater.dashboard.first_seen import ClaimHolder, FirstSeen, parse_holder
from pinlater.dashboard.forms import RequestRefused
from pinlater.dashboard.history import LENGTH, MOST_QUEUES, History
from pinlater.errors import NoHealthyShards
from pinlater.model.histogram import Histogram
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState
from pinlater.server.admin.figures import figures_of
from pinlater.server.admin.reports import ServerStatus
from pinlater.server.metrics import Metrics
from pinlater.server.metrics.reports import decode_report, encode_report

STATIC = Path(pinlater.dashboard.__file__).parent / "static"


def view_of(metrics, pid=7):
    return ServerStatus([decode_report(encode_report(pid, None, metrics.snapshot()))], [])


# ServerFigures


def test_every_figure_that_is_read_is_one_of_the_servers():
    assert set(NAMES) <= {one.info.name for one in Metrics().snapshot()}


def test_the_figures_are_those_of_the_server():
    metrics = Metrics()
    metrics.jobs_enqueued.add("pins", 3)
    metrics.call_seconds.observe("enqueueJobs", 0.002)
    metrics.connections.source = lambda: 5
    figures = figures_of(view_of(metrics))
    assert figures.processes == [ServerProcess(7, None, 5, 0, 1, __version__)]
    assert figures.total(ENQUEUED, "pins") == 3
    assert figures.histogram(CALL_SECONDS, "enqueueJobs").size == 1
    assert figures.histogram(CALL_SECONDS, "enqueueJobs").mean == 0.002
    assert figures.queues() == {"pins"}


def test_quantiles_of_what_was_added_between_two_moments():
    bounds = (1.0, 10.0, 100.0)
    before, after = Histogram(bounds, (90, 0, 0, 0), 90.0), Histogram(bounds, (90, 5, 5, 0), 500.0)
    added = after.since(before)
    assert (added.size, added.mean) == (10, 41.0)
    assert 1 < added.quantile(0.5) <= 10 < added.quantile(0.95) <= 100
    assert Histogram(bounds, (0, 0, 0, 3), 3e6).quantile(0.5) == 100.0
    assert Histogram(bounds, (0, 0, 0, 0), 0.0).quantile(0.5) is None
    assert before.since(after) == before  # counted anew


# The last hour


def figures(count, queues=("pins",), waited=()):
    counters = {name: {(queue,): count for queue in queues} for name in (ENQUEUED, DEQUEUED, SUCCEEDED)}
    histogram = Histogram((10.0, 100.0), tuple(waited), 0.0)
    return ServerFigures(
        [ServerProcess(1, None, 0, 0, 0)],
        counters,
        {WAITED_MS: {(queue,): histogram for queue in queues}} if waited else {},
    )


def filled(*samples, seconds=5.0):
    history = History(None)
    for index, sample in enumerate(samples):
        history.add(1000.0 + index * seconds, sample)
    return history


def test_rates_are_taken_between_samples():
    history = filled(figures(0), figures(50), figures(150))
    assert history.line("pins", "succeeded") == [None, 10.0, 20.0]
    assert history.rates("pins").succeeded == 15.0
    assert history.total_line("enqueued") == [None, 10.0, 20.0]
    assert history.moments() == [1000.0, 1005.0, 1010.0]
    assert history.rates("unknown").succeeded == 0.0
    assert filled().rates("pins").succeeded is None


def test_waiting_times_are_those_between_two_samples():
    history = filled(figures(0, waited=(100, 0, 0)), figures(1, waited=(100, 9, 0)), figures(2, waited=(100, 9, 0)))
    first, second, third = history.line("pins", "waited_ms")
    assert (first, third) == (None, None)
    assert 10 < second <= 100


def test_the_history_is_a_ring():
    history = filled(*(figures(5 * number) for number in range(LENGTH + 10)))
    assert len(history.moments()) == LENGTH
    assert history.moments()[-1] == 1000.0 + 5 * (LENGTH + 9)
    assert history.line("pins", "succeeded", 3) == [1.0, 1.0, 1.0]


def test_deleted_queues_are_forgotten_and_many_are_bounded():
    history = filled(figures(0, ("pins", "gone")), figures(1))
    assert history.line("gone", "succeeded") == []
    many = tuple(f"queue_{number}" for number in range(MOST_QUEUES * 3))
    history = filled(figures(0, many), figures(1, many), figures(2, many))
    assert sum(bool(history.line(queue, "succeeded")) for queue in many) == MOST_QUEUES


def test_a_busy_queue_takes_the_place_of_an_idle_one():
    idle = {(f"queue_{number:03}",): 1 for number in range(MOST_QUEUES + 1)}

    def sample(busy):
        counters = idle | {("zzz",): busy}
        return ServerFigures(
            [ServerProcess(1, None, 0, 0, 0)], dict.fromkeys((ENQUEUED, DEQUEUED, SUCCEEDED), counters)
        )

    history = filled(sample(0), sample(10), sample(20))
    assert history.line("zzz", "succeeded")[-1] == 2.0


def test_counters_that_fall_leave_a_gap():
    assert filled(figures(100), figures(0), figures(10)).line("pins", "succeeded") == [None, None, 2.0]


def test_a_server_that_does_not_answer_leaves_no_sample():
    async def look():
        return ServerFigures()

    history = History(look)
    asyncio.run(history.sample())
    assert history.moments() == []


def test_samples_that_take_long_are_rare_but_one_alone_does_not_count(monkeypatch):
    now, pauses = 0.0, []
    costs = iter([1.0, 0.01, 1.0, 1.0, 1.0, 1.0, 1.0])

    async def look():
        nonlocal now
        now += next(costs)
        return figures(0)

    async def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 7:
            raise asyncio.CancelledError

    monkeypatch.setattr(repeat_module.time, "perf_counter", lambda: now)
    monkeypatch.setattr(repeat_module.asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(repeat_module.repeat(History(look).sample, "look"))
    assert pauses == pytest.approx([5.0, 4.99, 9.98, 19.96, 39.92, 79.84, 100.0])


def test_a_sample_that_makes_no_sense_does_not_end_the_history(monkeypatch, caplog):
    answers = [ValueError("buckets of another version"), OSError("no server"), figures(0), figures(1)]

    async def look():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def sleep(_seconds):
        if not answers:
            raise asyncio.CancelledError

    history = History(look)
    monkeypatch.setattr(repeat_module.asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(repeat_module.repeat(history.sample, "look"))
    assert len(history.moments()) == 2
    assert [(record.levelname, record.message) for record in caplog.records] == [("ERROR", "cannot look")]


# Values


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("späť 🐙\n\tx", "späť 🐙\n\tx"),
        ("\x1b[31m\x00\x7f", "\\x1b[31m\\x00\\x7f"),
        ("a\u202eb\u200bc\ufeff", "a\\u202eb\\u200bc\\ufeff"),
        ("\ud800", "\\ud800"),
        ("\x85\u2028", "\\x85\\u2028"),
        ("a\u00a0b", "a b"),
    ],
)
def test_nothing_in_a_text_is_hidden(text, shown):
    assert formatting.visible(text) == shown
    assert formatting.finalized(text) == shown
    assert formatting.finalized(Markup(text)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, formatting.NOTHING),
        (0, "0 s"),
        (7.6e-06, "7.6 µs"),
        (0.000642, "642 µs"),
        (0.0011, "1.1 ms"),
        (0.52, "520 ms"),
        (3, "3.0 s"),
        (59.6, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (90000, "1 d 1 h"),
    ],
)
def test_lengths_of_time(seconds, text):
    assert formatting.duration(seconds) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (1_000_000, "now"),
        (997_000, "3 s ago"),
        (1_090_000, "in 1 min 30 s"),
        (0, formatting.NOTHING),
        (None, formatting.NOTHING),
        (10**18, f"{10**18} ms"),
    ],
)
def test_moments(ms, text):
    assert text in str(formatting.moment(ms, now=1000.0))


def test_numbers():
    assert formatting.number(1234567) == "1,234,567"
    assert [formatting.rate(value) for value in (None, 0, 0.031, 3.14, 1234.5)] == [
        formatting.NOTHING,
        "0",
        "0.03",
        "3.1",
        "1,234",
    ]
    assert [formatting.plural(count) for count in (0, 1, 1000)] == ["0 jobs", "1 job", "1,000 jobs"]
    assert [formatting.size(count) for count in (1, 2048, 3 << 20)] == ["1 byte", "2.0 KiB", "3.0 MiB"]


def test_long_names_are_shortened_in_their_middle():
    assert formatting.shortened("email") == "email"
    name = "orders_" + "x" * 60 + "_<north>"
    short = str(formatting.shortened(name, 20))
    assert 'data-full="orders_xx' in short
    assert '<span aria-hidden="true">orders_xxx\u2026x_&lt;north&gt;</span>' in short
    assert f'<span class="visually-hidden">orders_{"x" * 60}_&lt;north&gt;</span>' in short


def test_small_charts_leave_gaps_open():
    chart = formatting.sparkline([0.0, 1.0, None, 2.0, 3.0], samples=5)
    assert chart.count("<polyline") == 2
    assert "nan" not in chart
    assert formatting.sparkline([]).count("<polyline") == 0
    assert math.isfinite(float(re.search(r"points=\"([\d.]+),", chart)[1]))


# ClaimScan


def test_workers_are_told_by_their_claims():
    assert parse_holder("srv:9010:1:worker:web1:4242:0a1b2c3d.17:99") == ClaimHolder(
        "worker:web1:4242:0a1b2c3d.17", "web1", 4242
    )
    assert parse_holder("srv:9010:1:shop:a:b:99") == ClaimHolder("shop:a:b")
    assert parse_holder("") == ClaimHolder("")


def test_a_claim_is_held_since_it_was_first_seen():
    first_seen = FirstSeen()
    job = JobInfo("pins:s1:p1:1", JobState.IN_PROGRESS, 1, 1, updated_at_ms=1000, claim="c:1")
    assert first_seen.since_ms(job) == 1000
    assert first_seen.since_ms(job._replace(updated_at_ms=9000)) == 1000
    assert first_seen.since_ms(job._replace(updated_at_ms=9000, claim="c:2")) == 9000
    assert first_seen.since_ms(job._replace(claim=None)) is None


# Files


def test_vendored_files_are_those_that_their_sources_name():
    rows = re.findall(
        r"^\| `([\w.]+)` \|.*`([0-9a-f]{64})` \|$", (STATIC / "vendor" / "SOURCES.md").read_text(), re.MULTILINE
    )
    assert {name for name, _ in rows} == {
        path.name for path in (STATIC / "vendor").iterdir() if path.suffix in {".js", ".css"}
    }
    for name, digest in rows:
        assert hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() == digest, name


@pytest.mark.parametrize(
    "path", [path for path in STATIC.rglob("*") if path.suffix in {".js", ".css"}], ids=lambda path: path.name
)
def test_nothing_is_fetched_from_elsewhere(path):
    assert not re.search(r"(?:src|url|import|fetch)\s*[=(]\s*[\"']?(?:https?:)?//", path.read_text())


# BulkActions


class SlowClient:
    async def retry_these(self, queue, descriptors, *, attempts):
        await asyncio.Event().wait()


def test_plans_are_bounded(monkeypatch):
    monkeypatch.setattr("pinlater.dashboard.bulk_actions._STOP_SECONDS", 0.05)

    def planned():
        return PlannedAction(
            action=Action.RETRY, state=JobState.FAILED, jobs=ListedJobs({"pins": ["pins:s1:p1:1"]}), reason="", back="/"
        )

    async def main():
        actions = BulkActions(SlowClient(), lambda queue: None)
        made = [planned() for _ in range(MAX_ACTIONS + 1)]
        for one in made:
            actions.add(one)
        assert actions.find(made[0].key) is None  # forgotten for the last one
        for one in made[1:]:
            actions.start(one, "admin@x")
        with pytest.raises(RequestRefused, match="too many"):
            actions.add(planned())
        await actions.close()
        assert all(one.is_done and one.error == "stopped" for one in made[1:])

    asyncio.run(main())


class FailingClient:
    """Moves some of a hundred jobs, then fails."""

    async def move_these(self, move, descriptors):
        move.moved += 30
        raise NoHealthyShards("all ill")


def test_what_was_moved_before_an_error_is_counted():
    async def main():
        actions = BulkActions(FailingClient(), lambda queue: None)
        jobs = {"pins": [f"pins:s1:p1:{number}" for number in range(100)]}
        planned = PlannedAction(
            action=Action.MOVE, state=JobState.PENDING, jobs=ListedJobs(jobs), reason="", back="/", to="email"
        )
        actions.add(planned)
        actions.start(planned, "admin@x")
        await asyncio.wait([planned.task])
        return planned.changed, planned.error

    assert asyncio.run(main()) == (30, "all ill")


class GatedClient:
    """Moves nothing before it is let, and counts what it has moved to an end."""

    def __init__(self):
        self.gate, self.moved = asyncio.Event(), 0

    async def move_these(self, move, descriptors):
        await self.gate.wait()
        self.moved += len(descriptors)
        move.moved += len(descriptors)
        return len(descriptors)


def test_a_move_is_stopped_between_two_steps_and_not_within_one():
    async def main():
        client, changed = GatedClient(), []
        actions = BulkActions(client, changed.append)
        jobs = {"pins": [f"pins:s1:p1:{number}" for number in range(250)]}
        planned = PlannedAction(
            action=Action.MOVE, state=JobState.PENDING, jobs=ListedJobs(jobs), reason="", back="/", to="email"
        )
        actions.add(planned)
        actions.start(planned, "admin@x")
        stopping = asyncio.create_task(actions.stop(planned))
        await asyncio.sleep(0.05)
        client.gate.set()
        await stopping
        return client.moved, planned.changed, planned.error, changed

    assert asyncio.run(main()) == (100, 100, "stopped", ["pins", "email"])

"""The pages of job classes."""

import functools
import re

import pytest

from pinlater.client.async_client import AsyncClient
from pinlater.dashboard import class_figures
from pinlater.dashboard.class_figures import SPANS, ClassHistories
from pinlater.model.statistics import HOUR, MINUTE, Spread, Statistics, StatisticsKind, bucket_of
from tests.unit.dashboard.app import LOCKED, READER, dashboard, log_in, rows


def spread(*milliseconds):
    counts = {}
    for one in milliseconds:
        counts[bucket_of(one)] = counts.get(bucket_of(one), 0) + 1
    return Spread(counts)


class Kept:
    """Statistics that a store would keep: ``rows`` in every period that is asked for."""

    def __init__(self):
        self.rows = []
        self.asked = []

    async def statistics(self, kind, *, resolution, since_ms, until_ms, queues, name=None):
        assert kind is StatisticsKind.CLASS
        step = resolution * 1000
        until_ms = until_ms or since_ms + step
        self.asked.append(((until_ms - since_ms) // step, list(queues)))
        return [
            Statistics(
                one.queue, one.name, start, one.enqueued, 0, one.succeeded, one.failed, one.given_up, one.wait, one.run
            )
            for start in range(since_ms, until_ms, step)
            for one in self.rows
            if one.queue in queues and name in {None, one.name}
        ]


@pytest.fixture
def kept(monkeypatch):
    kept = Kept()
    monkeypatch.setattr(AsyncClient, "statistics", lambda _, *args, **options: kept.statistics(*args, **options))
    for queue in ("", "pins"):
        kept.rows += [
            Statistics(queue, "Mail", 0, succeeded=9, failed=1, given_up=1, wait=spread(5), run=spread(10, 100, 1000)),
            Statistics(queue, "Thumbnail", 0, succeeded=100, wait=spread(1), run=spread(4)),
        ]
    return kept


def test_without_statistics_the_page_says_where_they_come_from(browser):
    assert "No attempts in the last hour" in browser.get("/classes").text
    assert "Look at the last 30 days" in browser.get("/classes?name=Mail").text
    assert "Workers tell" in browser.get("/classes?name=Mail&span=30d").text


def test_failing_classes_are_first(browser, kept):
    mail, thumbnail = rows(browser.get("/classes").text)
    assert mail == "Mail 600 60 10 % 60 82 ms 944 ms 988 ms 5.7 ms 6.7 ms 6.8 ms"
    assert thumbnail.startswith("Thumbnail 6,000 0 0 % 0 ")
    assert [row.split()[0] for row in rows(browser.get("/classes?sort=runs").text)] == ["Thumbnail", "Mail"]
    assert [row.split()[0] for row in rows(browser.get("/classes?sort=run_p95&order=asc").text)] == [
        "Thumbnail",
        "Mail",
    ]
    assert [row.split()[0] for row in rows(browser.get("/classes?queue=pins&q=THUMB").text)] == ["Thumbnail"]
    assert rows(browser.get("/classes?span=24h").text)[0].startswith("Mail 240 24 ")
    assert rows(browser.get("/classes?span=30d").text)[0].startswith("Mail 7,200 720 ")


def test_a_class_is_shown_by_queue(browser, kept):
    text = browser.get("/classes?name=Mail").text
    [row] = rows(text)
    assert row.startswith("pins pending failed 600 60 10 %")
    assert 'href="/failing?class=Mail"' in text
    assert 'href="/jobs?queue=pins&amp;state=failed&amp;class=Mail"' in text
    assert "By queue" not in browser.get("/classes?name=Mail&queue=pins").text
    assert 'href="/failing?class=Mail&amp;queue=pins"' in browser.get("/classes?name=Mail&queue=pins").text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/classes?span=2h", 400),
        ("/classes?sort=x", 400),
        ("/classes?order=up", 400),
        ("/classes?queue=nothing", 404),
        ("/classes?name=" + "x" * 400, 400),
    ],
)
def test_wrong_addresses_get_a_sentence(browser, path, status):
    answer = browser.get(path)
    assert answer.status_code == status
    assert 'class="card empty-state"' in answer.text


def test_each_period_is_read_once_and_long_times_in_steps(browser, kept, monkeypatch):
    now = 1_000_000 * HOUR + 1830
    clock = [now]
    histories = ClassHistories(browser.app.state.dashboard.client, lambda: clock[0])
    read = functools.partial(browser.portal.call, histories.of_queue, SPANS["30d"])
    monkeypatch.setattr(class_figures, "_MOST_READ", 480)
    assert [read().unread for _ in range(4)] == [20, 11, 2, 0], "today is read again each time"
    assert {periods for periods, _ in kept.asked} == {24}
    figures = {one.name: one for one in read().figures}
    assert (figures["Mail"].runs, len(figures["Mail"].periods)) == (30 * 24 * 10, 30)
    kept.asked.clear()
    clock[0] += 24 * HOUR
    read()
    assert len(kept.asked) == 2, "the day that has ended, and the one that has begun"


def test_a_class_is_read_of_its_own_queues_only(browser, client, kept):
    for number in range(30):
        client.create_queue(f"queue_{number}")
    browser.get("/classes?name=Mail&span=30d")
    by_queue = [periods for periods, queues in kept.asked if queues == ["pins"]]
    assert by_queue == [24] * 30


def test_a_queue_in_which_a_class_runs_again_brings_its_history(browser, client, kept):
    client.create_queue("email")
    histories = ClassHistories(browser.app.state.dashboard.client, lambda: 1_000_000 * HOUR + 1830.0)
    read = functools.partial(browser.portal.call, histories.of_class, SPANS["24h"], "Mail")
    read()
    kept.rows.append(Statistics("email", "Mail", 0, succeeded=1))
    assert {one.queue: one.runs for one in read().figures} == {"pins": 240, "email": 24}
    kept.asked.clear()
    read()
    assert sum(queues == ["email", "pins"] and periods == 1 for periods, queues in kept.asked) == 3, (
        "this hour, and the two questions for recent queues"
    )


def test_very_many_classes_are_paged(browser, kept):
    kept.rows += [Statistics("", f"Class{number:03}", 0, failed=1) for number in range(150)]
    assert len(rows(browser.get("/classes").text)) == 50
    assert len(rows(browser.get("/classes?page=4").text)) == 2


def test_names_are_shown_and_never_obeyed(local_server, client, kept):
    kept.rows.append(Statistics("", "<script>alert(1)</script>" + "x" * 80, 0, failed=7))
    with dashboard(local_server.address, hides_bodies=True, **LOCKED) as browser:
        log_in(browser, READER)
        text = browser.get("/classes").text.partition("<main")[2]
        assert "<script>" not in text
        assert "&lt;script&gt;" in text
        link = re.search(r'href="(/classes\?name=[^"]+)"', text)[1].replace("&amp;", "&")
        assert "420" in browser.get(link).text


def test_spans_end_with_the_period_that_is_not_over():
    now = 1_000_000 * HOUR + 1830
    for name, (count, step) in {"1h": (60, MINUTE), "24h": (24, HOUR), "30d": (30, 24 * HOUR)}.items():
        starts = SPANS[name].starts(now)
        assert len(starts) == count
        assert starts[-1] <= now * 1000 < starts[-1] + step * 1000

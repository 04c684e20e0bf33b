"""The screen of ``pinlater top``, and the keys that change it."""

import pytest

from pinlater.cli.key_presses import key_names
from pinlater.cli.snapshots import QueueSnapshot
from pinlater.cli.top_view import TopView
from pinlater.model.jobs import PartialCount
from pinlater.model.queues import FOLLOWS_LOAD, QueueSettings


def snapshot(queue, at=0.0, wait=None, settings=None, **counts):
    found = {"due": 0, "scheduled": 0, "retrying": 0, "running": 0, "succeeded": 0, "failed": 0, **counts}
    return QueueSnapshot(at=at, queue=queue, wait_seconds=wait, settings=settings or QueueSettings(), **found)


@pytest.fixture
def view():
    view = TopView()
    view.show([snapshot(f"q{number}", wait=float(number), due=10 - number) for number in range(10)])
    return view


def press(view, *keys):
    return [view.press(key) for key in keys][-1]


def shown(view, rows=40, columns=120):
    lines = view.lines(columns, rows)
    return [line.split()[0] for line in lines[3:-2]]


def test_the_longest_wait_comes_first(view):
    assert shown(view)[:3] == ["q9", "q8", "q7"]
    assert view.lines(120, 40)[0].endswith("10 queues")


def test_a_shard_whose_jobs_are_left_out_is_named_above_the_table(view):
    view.show([snapshot("q0", due=PartialCount(3, ["2"])), snapshot("q1", due=PartialCount(4, ["2"]))])
    assert view.lines(120, 40)[0].endswith("2 queues; shard 2 does not answer: its jobs are left out")
    view.show([snapshot("q0"), snapshot("q1")])
    assert view.lines(120, 40)[0].endswith("2 queues")
    view.show([snapshot("q0")])
    assert view.lines(120, 40)[0].endswith("  1 queue")


def test_any_column_can_be_sorted_by_in_both_directions(view):
    press(view, "right", "right")  # past the end to the name
    assert shown(view)[:2] == ["q0", "q1"]
    press(view, "r")
    assert shown(view)[:2] == ["q9", "q8"]
    press(view, "right")
    assert shown(view)[:2] == ["q0", "q1"], "by due jobs, the most first"
    assert "DUE*" in view.lines(120, 40)[2]
    press(view, "r")
    assert shown(view)[:2] == ["q9", "q8"]


def test_rates_are_sorted_by_what_happened_since(view):
    view.show([snapshot("slow", 10.0, succeeded=5), snapshot("fast", 10.0, succeeded=5)])
    view.show([snapshot("slow", 20.0, succeeded=5), snapshot("fast", 20.0, succeeded=95)])
    press(view, "left")
    assert shown(view) == ["fast", "slow"]
    assert "9.0" in view.lines(120, 40)[3]


@pytest.mark.parametrize(
    ("settings", "state"),
    [
        (QueueSettings(), "open"),
        (QueueSettings(shards=FOLLOWS_LOAD), "open"),
        (QueueSettings(shards=1), "1 shard"),
        (QueueSettings(True, 2.5, 3, shards=FOLLOWS_LOAD, shards_by_load=2), "paused, 2.5/s, 3 at once, 2 shards"),
    ],
)
def test_the_state_says_what_the_settings_of_a_queue_are(view, settings, state):
    view.show([snapshot("one", settings=settings)])
    assert view.lines(160, 40)[3].endswith(state)


def test_a_filter_is_typed(view):
    assert not press(view, "/", "Q", "1")
    assert shown(view) == ["q1"]
    assert view.lines(120, 40)[0].endswith("1 of 10 queues")
    press(view, "backspace", "?", "7", "enter")
    assert shown(view) == ["q7"]
    assert not press(view, "escape"), "it takes the filter away first"
    assert len(shown(view)) == 10
    press(view, "/", "x", "escape")
    assert len(shown(view)) == 10


def test_it_scrolls_within_its_bounds(view):
    assert shown(view, rows=8) == ["q9", "q8", "q7"]
    press(view, "down")
    assert shown(view, rows=8) == ["q8", "q7", "q6"]
    press(view, "pagedown")
    assert shown(view, rows=8) == ["q5", "q4", "q3"]
    assert view.lines(120, 8)[0].endswith("10 queues, 5 to 7")
    press(view, "end")
    assert shown(view, rows=8) == ["q2", "q1", "q0"]
    press(view, "down", "down", "up")
    assert shown(view, rows=8) == ["q2", "q1", "q0"]
    press(view, "home", "up")
    assert shown(view, rows=8) == ["q9", "q8", "q7"]


@pytest.mark.parametrize("key", ["q", "Q", "escape"])
def test_it_ends(view, key):
    assert press(view, key)


def test_it_fits_the_window_or_is_wide():
    name = "a_queue_with_a_very_long_name_that_says_all_about_its_jobs"
    narrow, wide = TopView(), TopView(is_wide=True)
    for view in (narrow, wide):
        view.show([snapshot(name, wait=1.0, succeeded=123_456_789)])
    assert max(map(len, narrow.lines(80, 24)[2:4])) <= 80
    assert name in wide.lines(80, 24)[3]
    assert narrow.table()[1].startswith(name), "for programs nothing is cut"


def test_a_failure_is_said(view):
    view.fail("connection refused\x1b")
    assert view.lines(120, 40)[0].endswith("connection refused\\x1b; retrying")
    assert TopView().lines(120, 40)[0].endswith("loading ...")


def test_names_of_keys():
    assert list(key_names(b"\x1b[A\x1bOB\x1b[5~q/\x7f\r\x1b")) == [
        "up", "down", "pageup", "q", "/", "backspace", "enter", "escape"
    ]  # fmt: skip
    assert list(key_names(b"\x1b[1;5C\x1b[Z\x03\xff")) == ["^c"]

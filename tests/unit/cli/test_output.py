"""Tables, harmless text, latencies."""

import pytest

from pinlater.cli.latencies import Latencies
from pinlater.cli.output import body_text, bytes_json, moment, progress_text, visible
from pinlater.model.progress import Progress


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢", "plain é 漢"),
        ("a\nb\t", r"a\nb\t"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x9b", r"\x9b"),
        ("\u202e", r"\u202e"),
    ],
)
def test_nothing_steers_the_terminal(text, shown):
    assert visible(text) == shown


def test_bodies():
    assert body_text(None) == ""
    assert body_text(b"\xffa\n") == r"\xffa\n"
    assert bytes_json("body", None) == {}
    assert bytes_json("body", b"\xff") == {"body_base64": "/w=="}


def test_moments():
    assert moment(None) == "-"
    assert moment(1_700_000_000_000).startswith("2023-11-1")
    assert moment(10**18) == f"{10**18} ms"


def test_quantiles_are_close():
    latencies = Latencies()
    for number in range(1, 1001):
        latencies.add(number / 1000)
    assert latencies.quantile(0.5) == pytest.approx(0.5, rel=0.02)
    assert latencies.quantile(0.99) == pytest.approx(0.99, rel=0.02)
    assert latencies.quantile(1.0) == latencies.largest == 1.0
    assert (latencies.count, latencies.total) == (1000, pytest.approx(500.5))


def test_no_durations_have_no_quantiles():
    assert Latencies().quantile(0.5) == 0.0


def test_a_duration_of_nothing_counts():
    latencies = Latencies()
    latencies.add(0.0)
    assert latencies.quantile(0.5) == 0.0


@pytest.mark.parametrize(
    ("progress", "shown"),
    [
        (Progress(7), "7"),
        (Progress(1234567, None, "files"), "1,234,567  files"),
        (Progress(0, 3), "[--------------------] 0% (0 of 3)"),
        (Progress(2, 3), "[#############-------] 66% (2 of 3)"),
        (Progress(0.5, 1), "[##########----------] 50% (0.5 of 1)"),
        (Progress(0, 0), "[####################] 100% (0 of 0)"),
        (Progress(4, 3), "[####################] 100% (4 of 3)"),
    ],
)
def test_progress_for_people(progress, shown):
    assert progress_text(progress) == shown

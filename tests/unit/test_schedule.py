"""Ticks of schedules, also where a time zone leaves out an hour or has it twice."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from pinlater import Job, RawJob
from pinlater.schedule import Cron, Every, schedule_of

BERLIN = ZoneInfo("Europe/Berlin")


def ms(moment):
    return int(moment.timestamp() * 1000)


def ticks(schedule, after, count):
    found, at = [], ms(after)
    for _ in range(count):
        at = schedule.next_ms(at)
        found.append(datetime.fromtimestamp(at / 1000, schedule.zone).isoformat())
    return found


def test_every_counts_from_the_epoch():
    schedule = Every(60)
    assert [schedule.next_ms(at) for at in (0, 1, 59_999, 60_000)] == [60_000, 60_000, 60_000, 120_000]
    assert Every(1.5).next_ms(1_700_000_000_000) == 1_700_000_001_000
    assert Every(1.5).text == "every 1.5"
    assert Every(60).text == Every(60.0).text == "every 60.0"


def test_cron_in_utc():
    schedule = Cron("0 3 * * *", "UTC")
    assert ticks(schedule, datetime(2025, 3, 29, 3, 0, tzinfo=UTC), 2) == [
        "2025-03-30T03:00:00+00:00",
        "2025-03-31T03:00:00+00:00",
    ]
    assert schedule.next_ms(ms(datetime(2025, 3, 29, 3, 0, tzinfo=UTC)) - 1) == ms(datetime(2025, 3, 29, 3, tzinfo=UTC))


def test_cron_with_seconds():
    after = datetime(2025, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)
    assert ticks(Cron("* * * * * *", "UTC"), after, 2) == ["2025-01-01T00:00:01+00:00", "2025-01-01T00:00:02+00:00"]


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        # 2025-03-30: after 01:59:59 comes 03:00:00.
        (
            "30 2 * * *",
            datetime(2025, 3, 29, 12, tzinfo=BERLIN),
            ["2025-03-30T03:00:00+02:00", "2025-03-31T02:30:00+02:00"],
        ),
        (
            "30 * * * *",
            datetime(2025, 3, 30, 1, 0, tzinfo=BERLIN),
            ["2025-03-30T01:30:00+01:00", "2025-03-30T03:30:00+02:00", "2025-03-30T04:30:00+02:00"],
        ),
        # 2025-10-26: after 02:59:59 comes 02:00:00 once more.
        (
            "30 2 * * *",
            datetime(2025, 10, 26, 1, 0, tzinfo=BERLIN),
            ["2025-10-26T02:30:00+02:00", "2025-10-27T02:30:00+01:00"],
        ),
        ("30 2 * * *", datetime(2025, 10, 26, 2, 15, tzinfo=BERLIN, fold=1), ["2025-10-27T02:30:00+01:00"]),
        (
            "30 * * * *",
            datetime(2025, 10, 26, 1, 45, tzinfo=BERLIN),
            ["2025-10-26T02:30:00+02:00", "2025-10-26T02:30:00+01:00", "2025-10-26T03:30:00+01:00"],
        ),
    ],
)
def test_cron_where_the_clock_is_changed(expression, after, expected):
    assert ticks(Cron(expression, "Europe/Berlin"), after, len(expected)) == expected


@pytest.mark.parametrize("day", [datetime(2025, 3, 29, 23, tzinfo=BERLIN), datetime(2025, 10, 25, 23, tzinfo=BERLIN)])
@pytest.mark.parametrize("expression", ["*/7 * * * *", "0,30 2 * * *", "15 2 * * *", "0 */2 * * *"])
def test_ticks_always_move_on(expression, day):
    schedule, at = Cron(expression, "Europe/Berlin"), ms(day)
    for after in range(at, at + 6 * 3_600_000, 61_000):
        assert after < schedule.next_ms(after) <= after + 86_400_000 + 3_600_000


def test_text_is_what_was_written_less_its_spaces():
    assert Cron("  0  3 * *   * ", "Europe/Berlin").text == "cron 0 3 * * * Europe/Berlin"
    assert schedule_of("0 3 * * *", None, "UTC") is schedule_of("0 3 * * *", None, "UTC")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"cron": "0 3 * *"}, "has no tick"),
        ({"cron": "61 * * * *"}, "Bad minute"),
        ({"cron": "0 0 31 2 *"}, "has no tick"),
        ({"cron": ""}, "has no tick"),
        ({"cron": "* * * * *", "every": 1}, "two schedules"),
        ({"cron": "* * * * *", "timezone": "Berlin"}, "timezone='Berlin' is not known"),
        ({"cron": "* * * * *", "timezone": "../../etc/passwd"}, "is not known"),
        ({"cron": "* * * * *", "timezone": "Europe"}, "is not known"),
        ({"timezone": "Europe/Berlin"}, "for cron="),
        ({"every": 60, "timezone": "Europe/Berlin"}, "for cron="),
        ({"every": 0.5}, "at least 1"),
        ({"every": float("nan")}, "at least 1"),
        ({"every": 1e9}, "at most a year"),
        ({"every": 60, "name": "N" * 200}, "more than 200 characters"),
    ],
)
def test_impossible_schedules_are_refused_where_the_class_is_defined(options, complaint):
    with pytest.raises(TypeError, match="job") as caught:
        type(Job)("Tidy", (Job,), {}, **options)
    assert complaint in str(caught.value)


def test_a_periodic_class_needs_defaults():
    class Base(Job, every=60):
        depth: int = 1

    class Plain(Base):
        folder: str

    assert Base.job_options.schedule.text == "every 60.0"
    assert Plain.job_options.schedule is None, "or its work would be done twice a tick"
    with pytest.raises(TypeError, match=r"give a default to folder, mask$"):

        class Tidy(Base, every=60):
            folder: str
            mask: str
            count: int = 0

    with pytest.raises(TypeError, match="RawJob"):

        class Raw(RawJob, every=60):
            body: bytes = b""


def test_an_ordinary_class_has_none():
    class Plain(Job):
        number: int

    assert Plain.job_options.schedule is None

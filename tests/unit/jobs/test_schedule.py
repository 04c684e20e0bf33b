"""Ticks of schedules, also where a time zone leaves out an hour or has it twice."""

import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest

from pinlater import Job, RawJob
from pinlater.jobs.schedule import Cron, Every, schedule_of

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


# Where the clock is changed, in all time zones


def changes_of_2026():
    """Return a time zone and a moment for each of the changes of this year; zones that change alike have one."""
    found = {}
    begin = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    for name in sorted(available_timezones()):
        zone = ZoneInfo(name)
        days = [(day, wall(begin + day * 86400, zone)) for day in range(366)]
        for (day, local), (_, later) in itertools.pairwise(days):
            if later - local != timedelta(days=1):
                found.setdefault((day, local, later), (name, begin + day * 86400))
    assert len(found) >= 10
    return list(found.values())


def wall(moment, zone):
    return datetime.fromtimestamp(moment, zone).replace(tzinfo=None)


def ticks_between(cron, begin, end):
    found, at = [], begin
    while (at := cron.next_ms(at * 1000) // 1000) <= end:
        found.append(at)
    return found


def test_every_change_of_the_clock():
    for name, begin in changes_of_2026():
        zone, end = ZoneInfo(name), begin + 2 * 86400
        minutes = [(moment, wall(moment, zone)) for moment in range(begin + 60, end + 1, 60)]
        hourly = [moment for moment, now in minutes if now.minute in {0, 20, 40}]
        assert ticks_between(Cron("*/20 * * * *", name), begin, end) == hourly, name
        assert ticks_between(Cron("*/20 0-23 * * *", name), begin, end) == hourly, name
        daily = daily_of(minutes, wall(begin, zone))
        assert ticks_between(Cron("*/20 0-21,23 * * *", name), begin, end) == daily, f"{name}: each time once"


def daily_of(minutes, latest):
    """Return the moments when the clock passes a time of the day that it has not shown before."""
    found = []
    for moment, now in minutes:
        passed = [latest + timedelta(minutes=n) for n in range(1, int((now - latest).total_seconds()) // 60 + 1)]
        if any(time.minute in {0, 20, 40} and time.hour != 22 for time in passed):
            found.append(moment)
        latest = max(latest, now)
    return found


def test_there_are_changes_of_half_an_hour():
    lord_howe = "Australia/Lord_Howe"
    autumn, spring = datetime(2026, 4, 4, 14, tzinfo=UTC), datetime(2026, 10, 3, 14, tzinfo=UTC)
    assert ticks(Cron("*/30 * * * *", lord_howe), autumn, 3) == [
        "2026-04-05T01:30:00+11:00",
        "2026-04-05T01:30:00+10:30",
        "2026-04-05T02:00:00+10:30",
    ]
    assert ticks(Cron("45 1 * * *", lord_howe), autumn, 2) == ["2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"]
    assert ticks(Cron("15 2 * * *", lord_howe), spring, 2) == ["2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"]


def test_some_hours_of_the_day_do_not_come_twice():
    """Every second hour is no step of two hours, but a list of times: 00:30, 02:30 and so on."""
    autumn = datetime(2026, 10, 25, 0, 0, tzinfo=BERLIN)
    assert ticks(Cron("30 */2 * * *", "Europe/Berlin"), autumn, 3) == [
        "2026-10-25T00:30:00+02:00",
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T04:30:00+01:00",
    ]
    assert ticks(Cron("*/30 2 * * *", "Europe/Berlin"), autumn, 3) == [
        "2026-10-25T02:00:00+02:00",
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:00:00+01:00",
    ]


def test_one_that_is_for_a_day_far_off():
    cron = Cron("59 * 24 10 *", "America/Asuncion")
    found = ticks(cron, datetime(2026, 1, 1, tzinfo=UTC), 25)
    assert [moment[:16] for moment in found] == [f"2026-10-24T{hour:02}:59" for hour in range(24)] + [
        "2027-10-24T00:59"
    ]

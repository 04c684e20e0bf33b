"""The schedule of a periodic job in words, such as "at 03:00 from Monday to Friday, Europe/Berlin"."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_STEP = re.compile(r"\*/(\d+)")
_MOST_TIMES = 6
"""Times of a day that are listed; more are described as hours and minutes."""

_Name = Callable[[str], str]


def schedule_in_words(text: str) -> str:
    """Return a schedule in words; the text itself if there are no simple words for it.

    Args:
        text: the schedule as in ``PeriodicJob.schedule``: ``every 60.0`` or ``cron 0 3 * * * Europe/Berlin``.
    """
    kind, _, rest = text.partition(" ")
    if kind == "every":
        return _period(rest) or text
    fields = rest.split()
    if kind != "cron" or len(fields) != 6:
        return text
    words = _cron(*fields[:5])
    return text if words is None else f"{words}, {fields[5]}"


def _period(text: str) -> str | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    for size, unit in _UNITS:
        if seconds >= size and seconds % size == 0:
            return _every(int(seconds // size), unit)
    return f"every {seconds:g} seconds"


def _every(count: int, unit: str) -> str:
    return f"every {unit}" if count == 1 else f"every {count} {unit}s"


def _cron(minute: str, hour: str, day: str, month: str, weekday: str) -> str | None:
    time, days = _time(minute, hour), _days(day, month, weekday)
    if time is None or days is None:
        return None
    if not days:
        return f"{time} every day" if time.startswith("at ") else time
    return f"{time} {days}"


def _time(minute: str, hour: str) -> str | None:
    """Return the time within a day; None if there are no words for it."""
    minutes, hours = _numbers(minute), _numbers(hour)
    if minutes and hours and len(minutes) * len(hours) <= _MOST_TIMES:
        return "at " + _joined([f"{at:0>2}:{past:0>2}" for at in hours for past in minutes])
    hour_step = _step(hour, 24)
    if minutes:
        unit = _every(hour_step or 1, "hour")
        often = f"{unit} at minute {_joined([str(int(number)) for number in minutes])}"
    else:
        step = 1 if minute == "*" else _step(minute, 60)
        if step is None or hour_step is not None:
            return None
        often = _every(step, "minute")
    if hour == "*" or hour_step is not None:
        return often
    hours_in_words = _listed(hour, lambda number: f"{number:0>2}", "from hour {} to {}", "in hour {}")
    return None if hours_in_words is None else f"{often} {hours_in_words}"


def _step(field: str, whole: int) -> int | None:
    """Return the step of a field such as ``*/15`` if all steps are equal, else None."""
    found = _STEP.fullmatch(field)
    step = int(found[1]) if found else 0
    return step if step and whole % step == 0 else None


def _days(day: str, month: str, weekday: str) -> str | None:
    """Return the days in words, empty for every day; None if there are no words for them."""
    month_days = "on the last day of the month" if day.upper() == "L" else _month_days(day)
    weekdays = _listed(weekday, _day_name, "from {} to {}", "on {}")
    months = _listed(month, _month_name, "from {} to {}", "in {}")
    if month_days is None or weekdays is None or months is None:
        return None
    days = " or ".join(filter(None, (month_days, weekdays)))  # as cron has it
    return " ".join(filter(None, (days, months)))


def _month_days(field: str) -> str | None:
    return _listed(field, lambda number: str(int(number)), "from day {} to {} of the month", "on day {} of the month")


def _listed(field: str, name: _Name, span: str, single: str) -> str | None:
    """Return a list of numbers, or one range, in words; empty for all; None for anything else."""
    if field == "*":
        return ""
    try:
        if "-" in field:
            first, last = field.split("-")
            return span.format(name(first), name(last))
        return single.format(_joined([name(part) for part in field.split(",")]))
    except (ValueError, IndexError):
        return None


def _day_name(text: str) -> str:
    return _DAYS[int(text)] if text.isdecimal() else _named(text, _DAYS)


def _month_name(text: str) -> str:
    return _MONTHS[int(text) - 1] if text.isdecimal() and int(text) else _named(text, _MONTHS)


def _named(abbreviation: str, names: Sequence[str]) -> str:
    """Return the name that begins with the three letters.

    Raises:
        ValueError: there is none.
    """
    return names[[name[:3].lower() for name in names].index(abbreviation.lower())]


def _numbers(field: str) -> list[str]:
    """Return the numbers of a field that has only numbers, else none."""
    parts = field.split(",")
    return parts if all(part.isdecimal() for part in parts) else []


def _joined(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"

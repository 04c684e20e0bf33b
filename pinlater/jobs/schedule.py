"""Schedules of periodic jobs: cron expressions and fixed periods."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_SHORTEST_SECONDS = 1.0
_LONGEST_SECONDS = 366 * 86400.0
_DAY = 86400
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - wall clock time, in any zone
_NEVER_MS = 10**14
"""In the year 5138: the next tick of an expression for which cronsim finds none within fifty years."""


class Schedule(ABC):
    """An endless series of ticks, the same for every process.

    Attributes:
        text: the schedule as text; a stored job with another text does not belong to this schedule.
        zone: time zone in which ticks are shown.
    """

    text: str
    zone: tzinfo

    @abstractmethod
    def next_ms(self, after_ms: int) -> int:
        """Return the first tick after a moment; both are epoch milliseconds."""


class Every(Schedule):
    """Ticks at the multiples of a period since the epoch, which need no start time."""

    def __init__(self, seconds: float) -> None:
        if not _SHORTEST_SECONDS <= seconds <= _LONGEST_SECONDS:
            raise ValueError(f"every={seconds} is in seconds, at least 1 and at most a year")
        self._period_ms = round(seconds * 1000)
        self.text = f"every {self._period_ms / 1000}"
        self.zone = UTC

    def next_ms(self, after_ms: int) -> int:
        return (after_ms // self._period_ms + 1) * self._period_ms


class Cron(Schedule):
    """The ticks of a cron expression on the wall clock of a time zone.

    ``cronsim`` finds wall clock times; this class converts them to moments. An expression for all 24 hours follows
    elapsed time: when clocks are set back, it ticks in both runs of the repeated hour; when they are set forward, it
    has no ticks in the skipped hour. Any other expression names times of day, each of which comes once: in the first
    run of a repeated hour, and at the moment of the change if the change skips that time.
    """

    def __init__(self, expression: str, timezone: str) -> None:
        self._expression = " ".join(expression.split())
        self.zone = _zone(timezone)
        self.text = f"cron {self._expression} {timezone}"
        try:
            ticks = self._ticks(0)
            next(ticks)
        except (CronSimError, StopIteration) as error:
            raise ValueError(
                f"cron={expression!r} has no tick: {error or 'no such day'}; write minute, hour, day of the month, "
                "month and day of the week, such as '0 3 * * *'"
            ) from error
        self._is_hourly = len(ticks.hours) == 24

    def next_ms(self, after_ms: int) -> int:
        after = after_ms // 1000
        try:
            return 1000 * (self._next_of_each_hour(after) if self._is_hourly else self._next_of_day(after))
        except StopIteration:
            return _NEVER_MS

    def _ticks(self, local: int) -> CronSim:
        """Return the ticks after ``local``, in seconds of the wall clock, as wall clock times."""
        return CronSim(self._expression, _EPOCH + timedelta(seconds=local))

    def _next_of_day(self, after: int) -> int:
        for tick in self._ticks(after + self._offset(after)):
            moment = self._first(tick)
            if moment > after:  # in the second run of a repeated hour, its times have passed already
                return moment
        raise StopIteration

    def _first(self, tick: datetime) -> int:
        """Return the first moment at which the wall clock shows a time, or has skipped it."""
        local = round((tick - _EPOCH).total_seconds())
        found = round(tick.replace(tzinfo=self.zone).timestamp())
        if found + self._offset(found) == local:
            return found
        return self._change(found - _DAY, found + _DAY, local)

    def _next_of_each_hour(self, after: int) -> int:
        offset = self._offset(after)
        while True:
            found = round((next(self._ticks(after + offset)) - _EPOCH).total_seconds()) - offset
            near = min(found, after + _DAY)
            if self._offset(near) != offset:
                change = self._change(after, near)
                after, offset = change - 1, self._offset(change)
            elif near == found:
                return found
            else:
                after = found - _DAY
                offset = self._offset(after)

    def _offset(self, moment: int) -> int:
        """Return the UTC offset of the wall clock in seconds."""
        shift = datetime.fromtimestamp(moment, self.zone).utcoffset()
        return 0 if shift is None else round(shift.total_seconds())

    def _change(self, before: int, after: int, local: int | None = None) -> int:
        """Return the first moment with another offset than ``before`` or, given ``local``, a wall clock beyond that."""
        offset = self._offset(before)
        while after - before > 1:
            middle = (before + after) // 2
            shift = self._offset(middle)
            if (shift != offset) if local is None else (middle + shift > local):
                after = middle
            else:
                before = middle
        return after


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(
            f"timezone={name!r} is not known here; use a name such as 'Europe/Berlin', and where the system has no "
            "time zones, install the package tzdata"
        ) from error


@functools.cache
def schedule_of(cron: str | None, every: float | None, timezone: str) -> Schedule:
    """Return the schedule of a job class's options.

    Raises:
        ValueError: the options make no valid schedule; the message says why.
    """
    if cron is not None and every is not None:
        raise ValueError("cron= and every= are two schedules; give one of them")
    if cron is not None:
        return Cron(cron, timezone)
    if every is None:
        raise ValueError(f"timezone={timezone!r} is for cron=, which is not given")
    if timezone != "UTC":
        raise ValueError(f"timezone={timezone!r} is for cron=; every= counts seconds, which are the same everywhere")
    return Every(every)

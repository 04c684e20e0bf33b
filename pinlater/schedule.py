"""When a periodic job runs: at the ticks of a cron expression, or every so many seconds."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_SHORTEST_SECONDS = 1.0
_LONGEST_SECONDS = 366 * 86400.0
_NEVER_MS = 10**14
"""Of the year 5138; cronsim looks fifty years ahead."""


class Schedule(ABC):
    """An endless row of moments, the same for whoever asks.

    Attributes:
        text: of the schedule; a job that was planted with another one is not of this schedule.
        zone: whose wall clock the ticks are told in.
    """

    text: str
    zone: tzinfo

    @abstractmethod
    def next_ms(self, after_ms: int) -> int:
        """Return the first tick after a moment; both are epoch milliseconds."""


class Every(Schedule):
    """The whole multiples of a period since the epoch, so that nobody has to remember when it began."""

    def __init__(self, seconds: float) -> None:
        if not _SHORTEST_SECONDS <= seconds <= _LONGEST_SECONDS:
            raise ValueError(f"every={seconds} is in seconds, at least 1 and at most a year")
        self._period_ms = round(seconds * 1000)
        self.text = f"every {self._period_ms / 1000}"
        self.zone = UTC

    def next_ms(self, after_ms: int) -> int:
        return (after_ms // self._period_ms + 1) * self._period_ms


class Cron(Schedule):
    """The ticks of a cron expression on the wall clock of a time zone, as ``cronsim`` finds them."""

    def __init__(self, expression: str, timezone: str) -> None:
        self._expression = " ".join(expression.split())
        self.zone = _zone(timezone)
        self.text = f"cron {self._expression} {timezone}"
        try:
            next(self._ticks(datetime.now(self.zone)))
        except (CronSimError, StopIteration) as error:
            raise ValueError(
                f"cron={expression!r} has no tick: {error or 'no such day'}; write minute, hour, day of the month, "
                "month and day of the week, such as '0 3 * * *'"
            ) from error

    def _ticks(self, moment: datetime) -> CronSim:
        return CronSim(self._expression, moment)

    def next_ms(self, after_ms: int) -> int:
        for tick in self._ticks(datetime.fromtimestamp(after_ms // 1000, self.zone)):
            tick_ms = round(tick.timestamp() * 1000)
            if tick_ms > after_ms:  # in an hour that comes twice, cronsim tells of ticks in its first run only
                return tick_ms
        return _NEVER_MS


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
        ValueError: there is no such schedule; the message says why.
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

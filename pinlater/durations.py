"""Durations and other numbers on the command line."""

from __future__ import annotations

import re
from typing import Any

import click

DURATION = "TIME"
"""Placeholder for a duration in help texts."""

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw]?)", re.ASCII)
_MOST_SECONDS = 1e11
"""About 3,000 years; a time that far ahead can still be written as a date."""
_MOST = 1e9
"""Largest number accepted: as seconds, about 30 years, which waits on every platform can handle."""


class NumberRange(click.FloatRange):
    """A ``click.FloatRange`` that also refuses nan and numbers too large for a wait, such as inf."""

    name = "number"  # click's is "float range", which errors repeat

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value as a number."""
        number = super().convert(value, param, ctx)
        if not abs(number) <= _MOST:
            self.fail(f"{value!r} is not a number of at most {_MOST:.0f}.", param, ctx)
        return number


class Duration(NumberRange):
    """A ``NumberRange`` of seconds, which may also be written as a duration, such as ``90s`` or ``15m``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value in seconds."""
        if isinstance(value, str) and not _is_number(value):
            value = parse_duration(value)
        return super().convert(value, param, ctx)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def parse_duration(text: str) -> float:
    """Return a duration such as ``90``, ``15m``, ``2h`` or ``1d12h`` in seconds.

    Raises:
        click.BadParameter: the text is not a duration.
    """
    parts = _PART.findall(text)
    is_whole = "".join(number + unit for number, unit in parts) == text
    if not parts or not is_whole or (len(parts) > 1 and not all(unit for _, unit in parts)):
        raise click.BadParameter(f"{text!r} is not a duration; write 90s, 15m, 2h, 7d or 1d12h.")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds > _MOST_SECONDS:
        raise click.BadParameter(f"{text!r} is longer than 3,000 years; write less.")
    return seconds

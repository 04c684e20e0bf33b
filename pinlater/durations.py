"""Durations on the command line."""

from __future__ import annotations

import re

import click

DURATION = "TIME"
"""Placeholder for a duration in help texts."""

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw]?)", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as ``90``, ``15m``, ``2h`` or ``1d12h``.

    Raises:
        click.BadParameter: the text is not a duration.
    """
    parts = _PART.findall(text)
    is_whole = "".join(number + unit for number, unit in parts) == text
    if not parts or not is_whole or (len(parts) > 1 and not all(unit for _, unit in parts)):
        raise click.BadParameter(f"{text!r} is not a duration; write 90s, 15m, 2h, 7d or 1d12h.")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
